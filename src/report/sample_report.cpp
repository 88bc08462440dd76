#include "report/sample_report.h"

#include <fmt/format.h>

#include "base/units.h"
#include "report/layout.h"

namespace snug {
namespace {

double tokens_per_s(const SampleReport& r) {
  return r.seconds > 0 ? static_cast<double>(r.ids.size()) / r.seconds : 0;
}

}  // namespace

std::string sample_line(const SampleReport& r) {
  return fmt::format("{} in {}, {} tokens/s, after a prompt of {}; ended by {}",
                     counted(static_cast<int64_t>(r.ids.size()), "token"),
                     format_seconds(r.seconds), format_rate(tokens_per_s(r)),
                     counted(static_cast<int64_t>(r.prompt_ids.size()), "token"), r.ended_by);
}

std::string sample_json(const SampleReport& r) {
  return Json{{"text", or_null(r.text)},
              {"ids", r.ids},
              {"prompt_ids", r.prompt_ids},
              {"ended_by", r.ended_by},
              {"prompt_seconds", r.prompt_seconds},
              {"seconds", r.seconds},
              {"tokens_per_s", tokens_per_s(r)},
              {"planned_bytes", r.planned_bytes},
              {"peak_bytes", r.peak_bytes}}
      .dump();
}

}  // namespace snug

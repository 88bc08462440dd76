#include "report/eval_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "report/layout.h"

namespace snug {
namespace {

// "params 17.39 MiB, activations 3.00 MiB": what lives at the peak, the largest first.
std::string parts_text(const SpaceBreakdown& space) {
  std::vector<std::pair<int64_t, std::string>> parts;
  for (size_t c = 0; c < space.breakdown.size(); ++c) {
    const int64_t bytes = space.breakdown[c];
    const auto name = name_of(static_cast<Category>(c));
    if (bytes > 0) parts.emplace_back(bytes, fmt::format("{} {}", name, format_bytes(bytes)));
  }
  std::ranges::sort(parts, std::greater{}, &std::pair<int64_t, std::string>::first);
  std::vector<std::string> words;
  for (auto& part : parts) words.push_back(std::move(part.second));
  return join(words, ", ");
}

std::string other_spaces_text(const SpaceBytes& arenas) {
  std::string text;
  if (arenas[Space::host] > 0) text += fmt::format("; host {}", format_bytes(arenas[Space::host]));
  if (arenas[Space::disk] > 0) text += fmt::format("; disk {}", format_bytes(arenas[Space::disk]));
  return text;
}

}  // namespace

PlanReport forward_plan_report(const PlannedRun& planned, const std::string& what) {
  const Resolved& run = planned.run;
  const MemoryBreakdown& memory = planned.plan.memory;
  const SpaceBytes arenas = arenas_of(planned.plan.module);
  const int64_t arena = arenas[Space::device];
  const auto parameters = static_cast<double>(memory.trainable_params + memory.frozen_params);
  PlanReport report{.fits = arenas.fits_in(run.limits()), .arena_bytes = arena};
  report.table =
      fmt::format("{} on {} · {} parameters in {} · {}\nneeds  {} at the peak ({} bytes): {}{}",
                  run.model.config().name, device_text(run), format_count(parameters),
                  print_setting(run.options.precision), what, format_bytes(arena),
                  format_exact(arena), parts_text(memory.device()), other_spaces_text(arenas));
  if (run.budget) {
    const int64_t room = *run.budget + run.context - run.context_with(arenas);
    report.table +=
        fmt::format("{}  {} for it{}\n", report.fits ? "fits " : "does not fit", format_bytes(room),
                    run.within_free_memory() ? ", which is free on the GPU" : "");
  }
  report.json = Json{{"fits", report.fits},
                     {"arena_bytes", arena},
                     {"host_bytes", arenas[Space::host]},
                     {"disk_bytes", arenas[Space::disk]},
                     {"params", memory.trainable_params + memory.frozen_params}}
                    .dump();
  return report;
}

std::string eval_text(const EvalReport& r) {
  const std::string bits =
      r.bits_per_byte ? fmt::format(" · {:.4f} bits per byte", *r.bits_per_byte) : "";
  return fmt::format("loss {:.4f} · perplexity {:.4g}{} · {} tokens in {} · {} tokens/s", r.loss,
                     r.perplexity, bits, format_exact(r.tokens), counted(r.windows, "window"),
                     format_rate(r.tokens_per_s));
}

std::string eval_json(const EvalReport& r) {
  return Json{{"loss", r.loss},
              {"perplexity", r.perplexity},
              {"bits_per_byte", or_null(r.bits_per_byte)},
              {"tokens", r.tokens},
              {"windows", r.windows},
              {"seconds", r.seconds},
              {"tokens_per_s", r.tokens_per_s},
              {"planned_bytes", r.planned_bytes},
              {"peak_bytes", r.peak_bytes}}
      .dump();
}

std::string eval_progress(const EvalReport& r) {
  return fmt::format("{} of {}, loss {:.4f} so far, {} tokens/s", format_exact(r.windows),
                     counted(r.all_windows, "window"), r.loss, format_rate(r.tokens_per_s));
}

}  // namespace snug

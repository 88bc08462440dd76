#include "report/prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "base/median.h"
#include "base/units.h"

namespace snug {
namespace {

constexpr size_t kShown = 12;

std::string ms_text(double ms) { return fmt::format("{:.3f} ms", ms); }

std::string row_text(std::string_view what, std::string_view calls, const std::string& predicted,
                     const std::string& measured, double error) {
  return fmt::format("{:<34}{:>8}{:>20}{:>20}{:>+10.1f}%\n", what, calls, predicted, measured,
                     100 * error);
}

std::string bytes_row(std::string_view what, int64_t planned, int64_t measured) {
  return row_text(what, "", format_exact(planned), format_exact(measured),
                  error_of(static_cast<double>(planned), static_cast<double>(measured)));
}

std::string time_row(std::string_view what, std::string_view calls, double predicted,
                     double measured) {
  return row_text(what, calls, ms_text(predicted), ms_text(measured),
                  error_of(predicted, measured));
}

KindPrediction sum_of(std::span<const KindPrediction> rows, std::string what) {
  KindPrediction sum{.kind = std::move(what)};
  for (const KindPrediction& row : rows) {
    sum.calls += row.calls;
    sum.predicted_ms += row.predicted_ms;
    sum.measured_ms += row.measured_ms;
  }
  return sum;
}

std::string kind_row(const KindPrediction& row) {
  return time_row(row.kind, fmt::format("{}", row.calls), row.predicted_ms, row.measured_ms);
}

}  // namespace

double error_of(double predicted, double measured) {
  return measured > 0 ? predicted / measured - 1 : 0;
}

double typical_step_ms(std::vector<double> seconds) {
  constexpr std::ptrdiff_t kWarmUp = 2;
  if (std::ssize(seconds) > kWarmUp) seconds.erase(seconds.begin(), seconds.begin() + kWarmUp);
  return seconds.empty() ? 0 : median(std::move(seconds)) * 1e3;
}

std::string line_of(const Prediction& t) {
  return fmt::format("a step was predicted to take {} and took {}: {:+.1f}%",
                     ms_text(t.predicted_ms), ms_text(t.measured_ms),
                     100 * error_of(t.predicted_ms, t.measured_ms));
}

std::string table_of(const Prediction& t) {
  std::string out = fmt::format("times predicted by {}\n\n{:<34}{:>8}{:>20}{:>20}{:>11}\n",
                                t.times_from, "", "calls", "predicted", "measured", "error");
  out += time_row("a step", "", t.predicted_ms, t.measured_ms);
  out += bytes_row("bytes of the arena", t.planned_bytes, t.peak_bytes);
  if (t.device_bytes > 0)
    out += bytes_row("bytes on the GPU", t.planned_device_bytes, t.device_bytes);
  out += "\nops of a step, the furthest off first\n";
  const size_t shown = std::min(kShown, t.kinds.size());
  for (size_t i = 0; i < shown; ++i) out += kind_row(t.kinds[i]);
  const std::span rest = std::span(t.kinds).subspan(shown);
  if (!rest.empty()) out += kind_row(sum_of(rest, fmt::format("{} other kinds", rest.size())));
  return out + kind_row(sum_of(t.kinds, "all"));
}

std::string json_of(const Prediction& t) {
  nlohmann::ordered_json prediction{{"prices", t.times_from},
                                    {"predicted_step_ms", t.predicted_ms},
                                    {"measured_step_ms", t.measured_ms},
                                    {"planned_bytes", t.planned_bytes},
                                    {"peak_bytes", t.peak_bytes}};
  if (t.device_bytes > 0) {
    prediction["planned_device_bytes"] = t.planned_device_bytes;
    prediction["device_bytes"] = t.device_bytes;
  }
  prediction["ops"] = nlohmann::ordered_json::array();
  for (const KindPrediction& row : t.kinds) {
    prediction["ops"].push_back({{"kind", row.kind},
                                 {"calls", row.calls},
                                 {"predicted_ms", row.predicted_ms},
                                 {"measured_ms", row.measured_ms}});
  }
  return nlohmann::ordered_json{{"truth", std::move(prediction)}}.dump();
}

}  // namespace snug

#include "report/prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/median.h"
#include "base/units.h"
#include "report/layout.h"

namespace snug {
namespace {

constexpr size_t kPredictedShown = 12;

std::string ms_text(double ms) { return fmt::format("{:.3f} ms", ms); }

std::string row_text(std::string_view what, std::string_view calls, const std::string& predicted,
                     const std::string& measured, double error) {
  return fmt::format("{:<34}{:>8}{:>20}{:>20}{:>+10.1f}%\n", what, calls, predicted, measured,
                     100 * error);
}

std::string predicted_bytes_row(std::string_view what, int64_t planned, int64_t measured) {
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

std::string predicted_row(const KindPrediction& row) {
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

std::string line_of(const Prediction& prediction) {
  return fmt::format("a step was predicted to take {} and took {}: {:+.1f}%",
                     ms_text(prediction.predicted_ms), ms_text(prediction.measured_ms),
                     100 * error_of(prediction.predicted_ms, prediction.measured_ms));
}

std::string table_of(const Prediction& prediction) {
  std::string out =
      fmt::format("times predicted by {}\n\n{:<34}{:>8}{:>20}{:>20}{:>11}\n", prediction.times_from,
                  "", "calls", "predicted", "measured", "error");
  out += time_row("a step", "", prediction.predicted_ms, prediction.measured_ms);
  out += predicted_bytes_row("bytes of the arena", prediction.planned_bytes, prediction.peak_bytes);
  if (prediction.device_bytes > 0)
    out += predicted_bytes_row("bytes on the GPU", prediction.planned_device_bytes,
                               prediction.device_bytes);
  out += "\nops of a step, the furthest off first\n";
  const size_t shown = std::min(kPredictedShown, prediction.kinds.size());
  for (size_t i = 0; i < shown; ++i) out += predicted_row(prediction.kinds[i]);
  const std::span rest = std::span(prediction.kinds).subspan(shown);
  if (!rest.empty()) out += predicted_row(sum_of(rest, fmt::format("{} other kinds", rest.size())));
  return out + predicted_row(sum_of(prediction.kinds, "all"));
}

std::string json_of(const Prediction& prediction) {
  Json out{{"prices", prediction.times_from},
           {"predicted_step_ms", prediction.predicted_ms},
           {"measured_step_ms", prediction.measured_ms},
           {"planned_bytes", prediction.planned_bytes},
           {"peak_bytes", prediction.peak_bytes}};
  if (prediction.device_bytes > 0) {
    out["planned_device_bytes"] = prediction.planned_device_bytes;
    out["device_bytes"] = prediction.device_bytes;
  }
  out["ops"] = Json::array();
  for (const KindPrediction& row : prediction.kinds) {
    out["ops"].push_back({{"kind", row.kind},
                          {"calls", row.calls},
                          {"predicted_ms", row.predicted_ms},
                          {"measured_ms", row.measured_ms}});
  }
  return Json{{"truth", std::move(out)}}.dump();
}

}  // namespace snug

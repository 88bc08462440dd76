#include "train/truth.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/median.h"
#include "base/units.h"
#include "runtime/op_times.h"
#include "train/timed_training.h"

namespace snug {
namespace {

constexpr TimingEffort kEffort{.least = 2, .most = 15, .seconds = 1};
constexpr size_t kShown = 12;

double distance(const KindTruth& row) { return std::abs(row.predicted_ms - row.measured_ms); }

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

KindTruth sum_of(std::span<const KindTruth> rows, std::string what) {
  KindTruth sum{.kind = std::move(what)};
  for (const KindTruth& row : rows) {
    sum.calls += row.calls;
    sum.predicted_ms += row.predicted_ms;
    sum.measured_ms += row.measured_ms;
  }
  return sum;
}

std::string kind_row(const KindTruth& row) {
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

std::vector<KindTruth> kinds_of_step(Executor& executor, const CostModel& prices) {
  const Module& module = executor.module();
  std::map<std::string, KindTruth> kinds;
  // The update first: it reads the gradients of the last step, and does nothing where they
  // overflow.
  auto programs = programs_of_step(module);
  std::ranges::reverse(programs);
  for (const auto& [name, times] : programs) {
    const std::vector<double> ms = ms_within_program(executor, name, kEffort);
    const std::vector<Op>& ops = module.program(name).ops;
    for (size_t i = 0; i < ops.size(); ++i) {
      KindTruth& row = kinds[std::string(ops[i].def->kind)];
      row.kind = ops[i].def->kind;
      row.calls += times;
      row.measured_ms += static_cast<double>(times) * ms[i];
      row.predicted_ms += static_cast<double>(times) * prices.seconds(module, ops[i]) * 1e3;
    }
  }
  std::vector<KindTruth> out;
  for (auto& [kind, row] : kinds) out.push_back(std::move(row));
  std::ranges::sort(out, std::greater{}, distance);
  return out;
}

std::string line_of(const Truth& t) {
  return fmt::format("a step was predicted to take {} and took {}: {:+.1f}%",
                     ms_text(t.predicted_ms), ms_text(t.measured_ms),
                     100 * error_of(t.predicted_ms, t.measured_ms));
}

std::string table_of(const Truth& t) {
  std::string out = fmt::format("times predicted by {}\n\n{:<34}{:>8}{:>20}{:>20}{:>11}\n",
                                t.prices, "", "calls", "predicted", "measured", "error");
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

std::string json_of(const Truth& t) {
  nlohmann::ordered_json truth{{"prices", t.prices},
                               {"predicted_step_ms", t.predicted_ms},
                               {"measured_step_ms", t.measured_ms},
                               {"planned_bytes", t.planned_bytes},
                               {"peak_bytes", t.peak_bytes}};
  if (t.device_bytes > 0) {
    truth["planned_device_bytes"] = t.planned_device_bytes;
    truth["device_bytes"] = t.device_bytes;
  }
  truth["ops"] = nlohmann::ordered_json::array();
  for (const KindTruth& row : t.kinds) {
    truth["ops"].push_back({{"kind", row.kind},
                            {"calls", row.calls},
                            {"predicted_ms", row.predicted_ms},
                            {"measured_ms", row.measured_ms}});
  }
  return nlohmann::ordered_json{{"truth", std::move(truth)}}.dump();
}

}  // namespace snug

#include "train/op_predictions.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "runtime/op_times.h"

namespace snug {
namespace {

constexpr TimingEffort kEffort{.least = 2, .most = 15, .seconds = 1};

double distance(const KindPrediction& row) { return std::abs(row.predicted_ms - row.measured_ms); }

}  // namespace

std::vector<KindPrediction> kinds_of_step(Executor& executor, const CostModel& cost_model) {
  const Module& module = executor.module();
  std::map<std::string, KindPrediction> kinds;
  // The update first: it reads the gradients of the last step, and does nothing where they
  // overflow.
  auto programs = programs_of_step(module);
  std::ranges::reverse(programs);
  for (const auto& [name, times] : programs) {
    const std::vector<double> ms = ms_within_program(executor, name, kEffort);
    const std::vector<Op>& ops = module.program(name).ops;
    for (size_t i = 0; i < ops.size(); ++i) {
      KindPrediction& row = kinds[std::string(ops[i].def->kind)];
      row.kind = ops[i].def->kind;
      row.calls += times;
      row.measured_ms += static_cast<double>(times) * ms[i];
      row.predicted_ms += static_cast<double>(times) * cost_model.seconds(module, ops[i]) * 1e3;
    }
  }
  std::vector<KindPrediction> out;
  for (auto& [kind, row] : kinds) out.push_back(std::move(row));
  std::ranges::sort(out, std::greater{}, distance);
  return out;
}

}  // namespace snug

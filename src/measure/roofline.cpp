#include "measure/roofline.h"

#include <algorithm>
#include <map>

#include "cost/op_work.h"
#include "hal/cuda/stream_times.h"
#include "machine/open_device.h"
#include "measure/bench_device.h"
#include "measure/timed_training.h"
#include "runtime/op_times.h"

namespace snug {
namespace {

RooflineProgram roofline_of(TimedTraining& training, const std::string& name, int64_t times,
                            double copy_bytes_per_s) {
  const std::vector<OpTime> op_times = time_ops(training.executor(), name);
  const std::vector<Op>& ops = training.module().program(name).ops;
  std::map<std::string, RooflineRow> by_kind;
  for (size_t i = 0; i < ops.size(); ++i) {
    const Cost cost = cost_of(training.module(), ops[i], Backend::cuda);
    const auto bytes = static_cast<double>(cost.bytes_read + cost.bytes_written);
    RooflineRow& row = by_kind[std::string(ops[i].def->kind)];
    row.kind = ops[i].def->kind;
    row.calls += 1;
    row.measured_ms += op_times[i].ms;
    row.arithmetic |= is_arithmetic(cost);
    row.roofline_ms += is_arithmetic(cost) ? op_times[i].alone_ms : bytes / copy_bytes_per_s * 1e3;
    row.flops += static_cast<double>(cost.flops);
    row.bytes += bytes;
  }
  RooflineProgram out{.name = name, .times = times};
  for (auto& [kind, row] : by_kind) out.rows.push_back(std::move(row));
  std::ranges::sort(out.rows, std::greater{}, &RooflineRow::measured_ms);
  return out;
}

// The first micro-batch is costed like those after it, which also add to its gradients.
std::vector<std::pair<std::string, int64_t>> programs_to_show(const Module& module) {
  auto out = programs_of_step(module);
  const auto role = [&](size_t i) { return module.program(out[i].first).role; };
  if (out.size() > 2 && role(0) == ProgramRole::training_first &&
      role(1) == ProgramRole::training_next) {
    out[1].second += out[0].second;
    out.erase(out.begin());
  }
  return out;
}

}  // namespace

RooflineReport measure_roofline(const Resolved& run) {
  RooflineReport report{.device = require_gpu(run)};
  const std::unique_ptr<Device> device = open_device(run);
  report.copy_bytes_per_s = copy_bytes_per_s(*device);
  TimedTraining training(run, *device);
  report.batch = training.run().options.batch;
  report.seq = training.run().options.seq;
  report.accum = training.run().options.accum;
  report.tokens = training.tokens_per_step();
  report.step_ms = training.step_ms(run.options.steps);
  // The update first: it reads the gradients of real steps, and does nothing where they overflow.
  auto programs = programs_to_show(training.module());
  std::ranges::reverse(programs);
  for (const auto& [name, times] : programs)
    report.programs.push_back(roofline_of(training, name, times, report.copy_bytes_per_s));
  std::ranges::reverse(report.programs);
  return report;
}

}  // namespace snug

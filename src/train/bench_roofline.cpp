// Each op of a step beside what the device could do: products and attention alone, back to back;
// everything else at the speed of a copy.
#include <algorithm>
#include <chrono>
#include <map>

#include "hal/cuda/stream_times.h"
#include "runtime/initialise.h"
#include "runtime/op_times.h"
#include "snug/bench.h"
#include "train/bench_device.h"
#include "train/feeder.h"
#include "train/open_device.h"
#include "train/planning.h"

namespace snug {
namespace {

using Clock = std::chrono::steady_clock;

// A training that can be stepped and whose ops can be timed.
class Bench {
 public:
  explicit Bench(const Resolved& run)
      : samples_(Samples::for_training(run)),
        plan_(plan_run(run).plan),
        device_(open_device(run)),
        copy_bytes_per_s_(snug::copy_bytes_per_s(*device_)),
        executor_(plan_.module, *device_, {.math = run.math}),
        feeder_(executor_, run, samples_) {
    initialise(executor_, static_cast<uint64_t>(run.options.seed));
    derive(executor_);
  }

  // Milliseconds of a step, with the device busy from one to the next; mean.
  double step_ms(int64_t steps) {
    run_steps(kWarmUp);
    const auto start = Clock::now();
    run_steps(steps);
    const auto passed = std::chrono::duration<double, std::milli>(Clock::now() - start);
    return passed.count() / static_cast<double>(steps);
  }

  RooflineProgram program(const std::string& name, int64_t times) {
    const std::vector<OpTime> op_times = time_ops(executor_, name);
    const std::vector<Op>& ops = plan_.module.program(name).ops;
    std::map<std::string, RooflineRow> by_kind;
    for (size_t i = 0; i < ops.size(); ++i) {
      const Cost cost = cost_of(plan_.module, ops[i], Backend::cuda);
      const auto bytes = static_cast<double>(cost.bytes_read + cost.bytes_written);
      RooflineRow& row = by_kind[std::string(ops[i].def->kind)];
      row.kind = ops[i].def->kind;
      row.calls += 1;
      row.measured_ms += op_times[i].ms;
      row.arithmetic |= is_arithmetic(cost);
      row.roofline_ms +=
          is_arithmetic(cost) ? op_times[i].alone_ms : bytes / copy_bytes_per_s_ * 1e3;
      row.flops += static_cast<double>(cost.flops);
      row.bytes += bytes;
    }
    RooflineProgram out{.name = name, .times = times};
    for (auto& [kind, row] : by_kind) out.rows.push_back(std::move(row));
    std::ranges::sort(out.rows, std::greater{}, &RooflineRow::measured_ms);
    return out;
  }

  // The programs of a step with how often each runs. The first micro-batch is priced as those
  // after it, which also add to its gradients.
  std::vector<std::pair<std::string, int64_t>> programs() const {
    std::vector<std::pair<std::string, int64_t>> out;
    for (const Repeat& region : plan_.module.step)
      for (const std::string& name : region.programs) out.emplace_back(name, region.times);
    if (out.size() > 2 && out[0].first == "micro_first" && out[1].first == "micro_next") {
      out[1].second += out[0].second;
      out.erase(out.begin());
    }
    return out;
  }

  double copy_bytes_per_s() const { return copy_bytes_per_s_; }
  int64_t tokens() const { return feeder_.tokens_per_step(); }

 private:
  static constexpr int64_t kWarmUp = 3;

  void run_steps(int64_t count) {
    for (const int64_t end = steps_ + count; steps_ < end; ++steps_)
      executor_.run_step([&](std::string_view program) { feeder_.before(program, steps_); });
    device_->synchronise();
  }

  Samples samples_;
  Plan plan_;
  std::unique_ptr<Device> device_;
  double copy_bytes_per_s_;
  Executor executor_;
  Feeder feeder_;
  int64_t steps_ = 0;
};

template <typename Programs, typename Member>
double per_step(const Programs& programs, Member member) {
  double sum = 0;
  for (const RooflineProgram& p : programs) sum += static_cast<double>(p.times) * (p.*member)();
  return sum;
}

}  // namespace

double RooflineProgram::measured_ms() const {
  double sum = 0;
  for (const RooflineRow& row : rows) sum += row.measured_ms;
  return sum;
}

double RooflineProgram::roofline_ms() const {
  double sum = 0;
  for (const RooflineRow& row : rows) sum += row.roofline_ms;
  return sum;
}

double RooflineReport::ops_ms() const { return per_step(programs, &RooflineProgram::measured_ms); }
double RooflineReport::roofline_ms() const {
  return per_step(programs, &RooflineProgram::roofline_ms);
}

RooflineReport roofline(const Options& options) {
  const Resolved run = resolve(options);
  RooflineReport report{.device = require_gpu(run),
                        .batch = run.options.batch,
                        .seq = run.options.seq,
                        .accum = run.options.accum};
  Bench bench(run);
  report.copy_bytes_per_s = bench.copy_bytes_per_s();
  report.tokens = bench.tokens();
  report.step_ms = bench.step_ms(run.options.steps);
  // The update first: it reads the gradients of real steps, and does nothing where they overflow.
  auto programs = bench.programs();
  std::ranges::reverse(programs);
  for (const auto& [name, times] : programs) report.programs.push_back(bench.program(name, times));
  std::ranges::reverse(report.programs);
  return report;
}

}  // namespace snug

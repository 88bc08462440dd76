#include "measure/timed_training.h"

#include <chrono>

#include "runtime/initialise.h"

namespace snug {

TimedTraining::TimedTraining(const Resolved& run, Device& device)
    : planned_(plan_run(run)),
      samples_(Samples::for_training(planned_.run)),
      executor_(module(), device,
                {.math = planned_.run.math, .offload_dir = planned_.run.options.offload_dir}),
      feeder_(executor_, planned_.run, samples_) {
  initialise(executor_, static_cast<uint64_t>(run.options.seed));
  derive(executor_);
}

void TimedTraining::run_steps(int64_t count) {
  for (const int64_t end = steps_ + count; steps_ < end; ++steps_)
    executor_.run_step([&](const Program& program) { feeder_.before(program, steps_); });
  executor_.device().synchronise();
}

double TimedTraining::step_ms(int64_t steps) {
  constexpr int64_t kWarmUp = 3;
  run_steps(kWarmUp);
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  run_steps(steps);
  const auto passed = std::chrono::duration<double, std::milli>(Clock::now() - start);
  return passed.count() / static_cast<double>(steps);
}

}  // namespace snug

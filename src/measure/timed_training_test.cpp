#include "measure/timed_training.h"

#include <gtest/gtest.h>

#include "hal/cpu/cpu_device.h"
#include "snug/set_option.h"

namespace snug {
namespace {

// The search cuts the step into micro-batches: these are fed, not the batch that was asked for.
TEST(TimedTraining, RunsChosenPlan) {
  Options o;
  o.model = "snug-tiny";
  o.batch = 4;
  o.seq = 64;
  set_option(o, "budget", "1GiB");
  const int64_t whole = search_for(resolve(o)).smallest_feasible()[Space::device];
  o.budget = {whole - 1};
  const std::unique_ptr<Device> device = cpu_device();
  TimedTraining training(resolve(o), *device);
  EXPECT_LT(training.executor().planned_bytes(), whole);
  EXPECT_EQ(training.tokens_per_step(), 4 * 64);
  training.run_steps(2);
}

}  // namespace
}  // namespace snug

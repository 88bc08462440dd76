// More memory is never modelled slower, in any of the three spaces: a few runs, drawn by a seed, each
// planned inside rising budgets. bench/monotone.py does the same with many, and with large models.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/rng.h"
#include "search/plan_run.h"
#include "settings/testing/with_flags.h"

namespace snug {
namespace {

class Draws {
 public:
  explicit Draws(uint64_t seed) : state_(seed) {}
  std::string one_of(std::initializer_list<const char*> words) {
    state_ = mix(state_);
    return words.begin()[state_ % words.size()];
  }

 private:
  uint64_t state_;
};

Resolved drawn_run(uint64_t seed, const std::string& flags) {
  Draws draws(seed);
  Options o;
  o.model = draws.one_of({"gpt2", "smollm2-135m"});
  o.seq = 512;
  std::string drawn = "--gpu " + draws.one_of({"rtx4090", "h200", "l4"});
  drawn += " --batch " + draws.one_of({"4", "8", "16"});
  drawn += " --state-dtype " + draws.one_of({"fp32", "bf16 --master none --grad-dtype bf16"});
  return resolve(testing::with_flags(o, drawn + " " + flags));
}

// What `option` limits rises; a plan that fits is followed by plans that fit and are no slower.
void expect_no_slower(uint64_t seed, const std::string& flags, const std::string& option,
                      std::initializer_list<int> mib) {
  double least = std::numeric_limits<double>::infinity();
  for (const int budget : mib) {
    const PlannedRun plan =
        plan_run(drawn_run(seed, fmt::format("{} {} {}MiB", flags, option, budget)));
    SCOPED_TRACE(fmt::format("{} on {}, batch {}, {} {} MiB: --offload {}", plan.run.options.model,
                             plan.run.options.gpu, plan.run.options.global_batch, option, budget,
                             print_setting(plan.run.options.offload)));
    const bool fits = arenas_of(plan.plan.module).fits_in(plan.run.limits());
    if (!fits && std::isinf(least)) continue;
    ASSERT_TRUE(fits) << "less memory was enough";
    EXPECT_LE(plan.step_seconds, least * (1 + 1e-9));
    least = std::min(least, plan.step_seconds);
  }
  EXPECT_FALSE(std::isinf(least)) << "nothing fits";
}

TEST(Monotone, DeviceMemory) {
  expect_no_slower(1, "--offload auto", "--budget", {1600, 3200, 4500});
  expect_no_slower(2, "--offload auto", "--budget", {1600, 2500, 3200});
}

TEST(Monotone, HostMemory) {
  expect_no_slower(4, "--budget 1600MiB", "--host-budget", {700, 1800, 6000});
}

TEST(Monotone, Disk) {
  expect_no_slower(6, "--budget 1800MiB --host-budget 900MiB --offload-dir /tmp", "--disk-budget",
                   {1800, 4000});
}

}  // namespace
}  // namespace snug

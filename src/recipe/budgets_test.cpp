// --budget, --host-budget and --disk-budget: one limit for each space.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "recipe/resolve.h"
#include "snug/set_option.h"

namespace snug {
namespace {

using ::testing::HasSubstr;

Options of_a_small_model() {
  Options o;
  o.model = "snug-tiny";
  return o;
}

TEST(Budgets, AreNotThereUnlessGiven) {
  EXPECT_EQ(resolve(of_a_small_model()).limits(), kNoLimits);
}

TEST(Budgets, AreOneLimitForEachSpace) {
  Options o = of_a_small_model();
  set_option(o, "budget", "1GiB");
  EXPECT_EQ(resolve(o).limits(), device_limit(int64_t{1} << 30));
  set_option(o, "host-budget", "2GiB");
  set_option(o, "disk-budget", "3GB");
  const Resolved run = resolve(o);
  EXPECT_EQ(run.limits(), Limits(SpaceBytes{{int64_t{1} << 30,
                                             (int64_t{2} << 30) - host_context_bytes(Backend::cpu),
                                             3'000'000'000}}));
  EXPECT_EQ(changed(run, {{&Options::batch, 4}}).limits(), run.limits());
}

TEST(Budgets, UnreadableBudgetNamesItsOption) {
  Options o = of_a_small_model();
  try {
    set_option(o, "host-budget", "much");
    FAIL() << "read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), HasSubstr("--host-budget "));
  }
}

}  // namespace
}  // namespace snug

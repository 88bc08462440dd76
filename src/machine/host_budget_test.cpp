#include "machine/host_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advice/plan_facts.h"
#include "base/error.h"
#include "base/units.h"
#include "snug/set_option.h"

namespace snug {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(HostBudget, LeavesAReserve) {
  EXPECT_EQ(host_budget_of(parse_bytes("8GiB")), parse_bytes("7GiB"));
  EXPECT_EQ(host_budget_of(parse_bytes("400GiB")), parse_bytes("380GiB"));
  EXPECT_EQ(host_budget_of(parse_bytes("1GiB")), 0);
  EXPECT_EQ(host_budget_of(0), 0);
}

// A plan that keeps so many bytes on the host, which may take 2 GiB, with its other host memory.
std::string refusal_of(int64_t bytes, const char* given) {
  Options o;
  o.model = "snug-tiny";
  set_option(o, "host-budget", given);
  PlannedRun planned = plan_run(resolve(o));
  planned.run.host_budget = parse_bytes("2GiB");
  planned.plan.module.arena_bytes[static_cast<size_t>(Space::host)] =
      bytes - host_context_bytes(Backend::cpu);
  try {
    require_fit(planned);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::does_not_fit);
    return fmt::format("{}; {}", error.what(), error.hint());
  }
}

TEST(HostBudget, ExcessivePlanIsRefusedWithAdvice) {
  EXPECT_EQ(refusal_of(parse_bytes("2GiB"), "2GiB"), "");
  EXPECT_THAT(refusal_of(parse_bytes("3GiB"), "2GiB"),
              AllOf(HasSubstr("snug-tiny at --batch 8"),
                    HasSubstr("keeps 3.00 GiB (3,221,225,472 bytes) in host memory"),
                    HasSubstr("--host-budget is 2.00 GiB (2,147,483,648 bytes)"),
                    HasSubstr("keep more on the device"), HasSubstr("--host-budget 3221225472")));
  EXPECT_THAT(refusal_of(parse_bytes("3GiB"), ""), HasSubstr("this machine has 2.00 GiB"));
}

}  // namespace
}  // namespace snug

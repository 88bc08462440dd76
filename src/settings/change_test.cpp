#include "settings/change.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "settings/testing/with_flags.h"

namespace snug {
namespace {

TEST(Change, PrintsItsFlags) {
  const Change change{{&Options::batch, 4},
                      {&Options::precision, ComputeType::bf16},
                      {&Options::update_in_backward, true},
                      {&Options::clip, 0.0},
                      {&Options::lr, as_shown(3e-4 * 0.2)}};
  EXPECT_EQ(flags_of(change),
            "--batch 4 --precision bf16 --update-in-backward --clip 0 --lr 6e-05");
  const Options typed = testing::with_flags({}, flags_of(change));
  const Options set = changed({}, change);
  EXPECT_EQ(typed.batch, set.batch);
  EXPECT_EQ(typed.precision, set.precision);
  EXPECT_EQ(typed.update_in_backward, set.update_in_backward);
  EXPECT_EQ(typed.lr, set.lr) << "what is shown is what runs";
}

TEST(Change, LaterChangeWins) {
  const Change both = Change{{&Options::accum, 2}} + Change{{&Options::accum, 3}};
  EXPECT_EQ(changed({}, both).accum, 3);
  EXPECT_TRUE(both.sets(&Options::accum));
  EXPECT_FALSE(both.sets(&Options::batch));
}

// A refusal is an answer; a fault of ours is not.
TEST(UnlessRefused, LetsInternalErrorsThrough) {
  EXPECT_EQ(unless_refused([] { return 3; }), 3);
  EXPECT_EQ(unless_refused([]() -> int { throw usage_error("no"); }), std::nullopt);
  EXPECT_EQ(unless_refused([]() -> int { throw does_not_fit("no"); }), std::nullopt);
  EXPECT_THROW(unless_refused([]() -> int { throw internal_error("no"); }), Error);
}

}  // namespace
}  // namespace snug

#include "recipe/change.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "recipe/settings.h"
#include "recipe/testing/with_flags.h"

namespace snug {
namespace {

ExitCode code_of(const Change& change) {
  try {
    changed(Options{}, change);
  } catch (const Error& error) {
    return error.code();
  }
  return ExitCode::ok;
}

TEST(Change, PrintsTheFlagsThatMakeIt) {
  const Change change{{"batch", 4},
                      {"precision", "bf16"},
                      {"update-in-backward", true},
                      {"clip", 0.0},
                      {"lr", as_shown(3e-4 * 0.2)}};
  EXPECT_EQ(flags_of(change),
            "--batch 4 --precision bf16 --update-in-backward --clip 0 --lr 6e-05");
  const Options typed = testing::with_flags({}, flags_of(change));
  const Options set = changed({}, change);
  EXPECT_EQ(typed.batch, set.batch);
  EXPECT_EQ(typed.precision, set.precision);
  EXPECT_EQ(typed.update_in_backward, set.update_in_backward);
  EXPECT_EQ(typed.lr, set.lr) << "what is shown is what runs";
}

TEST(Change, WhatIsAddedWins) {
  const Change both = Change{{"accum", 2}} + Change{{"accum", 3}};
  EXPECT_EQ(changed({}, both).accum, 3);
  EXPECT_TRUE(both.sets("accum"));
  EXPECT_FALSE(both.sets("batch"));
}

TEST(Change, AnUnknownOptionOrAnotherTypeIsOurMistake) {
  EXPECT_EQ(code_of({{"acum", 2}}), ExitCode::internal);
  EXPECT_EQ(code_of({{"accum", "2"}}), ExitCode::internal);
  EXPECT_EQ(code_of({{"accum", 2}}), ExitCode::ok);
}

TEST(Settings, DifferWhereProgramsOrTheirTimesDo) {
  const Settings plain;
  EXPECT_EQ(hash_of(plain), hash_of(Settings{}));
  Settings tf32;
  tf32.math.tf32 = true;
  Settings clipped;
  clipped.recipe.clip = 0;
  Settings dropped;
  dropped.recipe.recompute = parse_recompute("every:2");
  for (const Settings& other : {tf32, clipped, dropped}) EXPECT_NE(plain, other);
  EXPECT_NE(hash_of(plain), hash_of(tf32));
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

#include "settings/settings.h"

#include <gtest/gtest.h>

#include "settings/parse.h"

namespace snug {
namespace {

TEST(Settings, HashDependsOnPrograms) {
  const Settings plain;
  EXPECT_EQ(hash_of(plain), hash_of(Settings{}));
  Settings tf32;
  tf32.math.tf32 = true;
  Settings clipped;
  clipped.recipe.clip = 0;
  Settings dropped;
  dropped.recipe.recompute = parse_setting<RecomputePolicy>("every:2", "recompute");
  for (const Settings& other : {tf32, clipped, dropped}) EXPECT_NE(plain, other);
  EXPECT_NE(hash_of(plain), hash_of(tf32));
}

}  // namespace
}  // namespace snug

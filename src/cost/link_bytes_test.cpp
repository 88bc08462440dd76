#include "cost/link_bytes.h"

#include <gtest/gtest.h>

#include "compile/compile.h"
#include "models/model.h"

namespace snug {
namespace {

LinkBytes of_job(const Sharding& sharding, int64_t machine) {
  Recipe recipe;
  recipe.sharding = sharding;
  const Module module =
      compile("tiny", Model::load("snug-tiny").forward({.batch = 1, .seq = 16}), recipe);
  return link_bytes(module, {.within = 1, .between = 1, .machine = machine});
}

TEST(LinkBytes, OneMachineSendsNothingToOthers) {
  const LinkBytes bytes = of_job({.ranks = 8, .level = 3, .threshold = 0}, 8);
  EXPECT_GT(bytes.within, 0);
  EXPECT_EQ(bytes.between, 0);
}

// Sharers of a copy have one machine to themselves: gathers of parameters stay there.
TEST(LinkBytes, CopiesKeepGathersInsideTheirMachines) {
  const LinkBytes all = of_job({.ranks = 8, .level = 3, .threshold = 0}, 4);
  const LinkBytes copies = of_job({.ranks = 8, .level = 3, .threshold = 0, .group = 4}, 4);
  EXPECT_GT(all.between, 0);
  EXPECT_GT(copies.between, 0);
  EXPECT_LT(copies.between, all.between);
  const LinkBytes alone = of_job({.ranks = 8, .level = 3, .threshold = 0}, 1);
  EXPECT_EQ(alone.within, 0) << "each rank is a machine";
  EXPECT_EQ(alone.between, all.within + all.between);
}

}  // namespace
}  // namespace snug

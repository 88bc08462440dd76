// Which plans differ from one in a single thing.
#include "search/neighbours.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "models/model.h"
#include "settings/parse.h"

namespace snug {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

TriedPlan plan_that_moves(const std::string& items) {
  const Model model = Model::load("gpt2");
  Variant variant{.stack = {.layers = static_cast<int32_t>(model.config().L)},
                  .cost_model = nominal_model(Backend::cuda)};
  variant.settings.recipe.backend = Backend::cuda;
  variant.settings.recipe.offload = parse_setting<Offload>(items, "offload");
  return {.variant = std::move(variant), .policy = {}};
}

std::set<std::string> offloads_next_to(const TriedPlan& tried) {
  std::set<std::string> found;
  for (const PlanToTry& other : neighbours_of(tried))
    found.insert(text(other.variant.settings.recipe.offload));
  return found;
}

TEST(Neighbours, PinnedPlanHasNone) {
  TriedPlan tried = plan_that_moves("optimizer,master");
  tried.variant.settings.recipe.recompute = {.kind = RecomputePolicy::Kind::full};
  EXPECT_THAT(neighbours_of(tried), IsEmpty());
}

TEST(Neighbours, EveryItemIsMovedOrBroughtBack) {
  TriedPlan tried = plan_that_moves("optimizer,master");
  tried.variant.moves_are_open = true;
  EXPECT_THAT(offloads_next_to(tried),
              UnorderedElementsAre("master", "optimizer", "optimizer,master,grads",
                                   "optimizer,master,params", "optimizer,master,activations"))
      << "without either nothing would move: that is no neighbour";
  tried = plan_that_moves("optimizer,activations");
  tried.variant.moves_are_open = true;
  EXPECT_THAT(offloads_next_to(tried), Not(Contains("activations")))
      << "updates would not be folded";
  tried = plan_that_moves("grads@0-5");
  tried.variant.moves_are_open = true;
  EXPECT_THAT(offloads_next_to(tried), Contains("grads"));
}

TEST(Neighbours, WholeParametersOfRanksStay) {
  TriedPlan tried = plan_that_moves("optimizer,master");
  tried.variant.moves_are_open = true;
  Sharding& sharding = tried.variant.settings.recipe.sharding;
  sharding.ranks = 8;
  sharding.level = 1;
  EXPECT_THAT(offloads_next_to(tried), Not(Contains("optimizer,master,params")));
  sharding.level = 3;
  EXPECT_THAT(offloads_next_to(tried), Contains("optimizer,master,params"));
}

TEST(Neighbours, HostUpdatesNothingThatIsNotThere) {
  TriedPlan tried = plan_that_moves("optimizer,master,grads");
  tried.variant.settings.recipe.host_update = {.on = true};
  tried.variant.moves_are_open = true;
  for (const PlanToTry& other : neighbours_of(tried)) {
    const Recipe& recipe = other.variant.settings.recipe;
    EXPECT_TRUE(!recipe.host_update.on || recipe.offload.moves(OffloadItem::optimizer))
        << text(recipe.offload);
  }
}

TEST(Neighbours, OpenDistanceAndRecomputeGoOneStep) {
  TriedPlan tried = plan_that_moves("optimizer");
  tried.variant.settings.recipe.recompute = {.kind = RecomputePolicy::Kind::automatic};
  tried.policy = {.kind = RecomputePolicy::Kind::full};
  tried.variant.ahead_is_open = true;
  std::set<int32_t> ahead;
  std::set<std::string> policies;
  for (const PlanToTry& other : neighbours_of(tried)) {
    ahead.insert(other.variant.settings.recipe.offload.ahead);
    policies.insert(print_setting(other.policy));
  }
  EXPECT_THAT(ahead, UnorderedElementsAre(1, 2)) << "1 is its own, and the least";
  EXPECT_THAT(policies, UnorderedElementsAre("full", "ratio:0.75"));
}

}  // namespace
}  // namespace snug

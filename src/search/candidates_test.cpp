// The parts of a search on a small model: one variant that moves nothing, one with chunked loss that is
// no better in anything, and one whose optimizer state is in host memory.
#include "search/candidates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/model.h"
#include "search/best_first.h"
#include "search/offload_search.h"
#include "search/runners_up.h"
#include "search/screening.h"
#include "settings/parse.h"

namespace snug {
namespace {

using ::testing::ElementsAre;

Variant variant_with(int pick, BuildOptions build, const char* offload) {
  Recipe recipe{.optimizer = OptimizerKind::adamw};
  recipe.recompute.kind = RecomputePolicy::Kind::automatic;
  recipe.offload = parse_setting<Offload>(offload, "offload");
  const Model whole = Model::load("snug-tiny");
  return {.picks = {pick},
          .stack = {.layers = static_cast<int32_t>(whole.config().L),
                    .forward =
                        [whole, build](int32_t layers) {
                          return whole.with_layers(layers).forward(build);
                        }},
          .settings = {.build = build, .recipe = recipe},
          .cost_model = nominal_model(recipe.backend)};
}

std::vector<Variant> variants() {
  constexpr BuildOptions kBuild{.batch = 2, .seq = 128};
  std::vector<Variant> all{variant_with(0, kBuild, "none"), variant_with(1, kBuild, "none"),
                           variant_with(2, kBuild, "optimizer")};
  all[2].plain = {0};
  return all;
}

struct Parts {
  Estimates estimates;
  PolicyCache policies;
  Trials trials{"tiny", estimates};
  Candidates all{variants(), estimates, policies, trials};
  Screened screened = screen(all, estimates);
};

TEST(Candidates, MatchBytesAndTimeOfTrial) {
  Parts p;
  p.all.expand(0);
  ASSERT_GT(p.all.of(0).size(), 3U);
  const CandidateId id{0, p.all.of(0).size() / 2};
  const SpaceBytes size = p.all.size_of(id);
  EXPECT_TRUE(p.all[id].least.fits_in(size));
  const auto planned = p.trials.plan(p.all.variants()[0], p.all.policy_of(id));
  EXPECT_EQ(planned.seconds, p.all[id].seconds);
  EXPECT_TRUE(arenas_of(planned.plan.module).fits_in(*p.all[id].arena));
}

TEST(Candidates, PlanIsEnteredAsOwnVariant) {
  Parts p;
  const CandidateId none{0, 0};
  p.all.size_of(none);
  const CandidateId entered = p.all.enter(p.all.tried(none));
  EXPECT_EQ(entered.variant, p.all.given());
  EXPECT_EQ(p.all.began_with(entered.variant), 0U);
  EXPECT_EQ(p.all[entered].seconds, p.all[none].seconds);
  EXPECT_EQ(text(p.all.policy_of(entered)), "none");
}

TEST(Screening, DropsDominatedCandidates) {
  const Parts p;
  EXPECT_THAT(p.screened.contenders, ElementsAre(0, 2));
  EXPECT_GT(p.screened.least[2][Space::host], 0);
  EXPECT_LT(p.screened.least[2][Space::device], p.all.estimate_of(0)->persistent[Space::device]);
  EXPECT_FALSE(p.all.estimate_of(2)) << "what moves is not estimated before it is needed";
}

TEST(BestFirst, FindsTheFastestAndTheSmallest) {
  Parts p;
  const auto fastest = find_fastest(p.all, p.screened.contenders, kNoLimits);
  ASSERT_TRUE(fastest);
  EXPECT_EQ(text(p.all.policy_of(*fastest)), "none");
  const CandidateId smallest = find_smallest(p.all, p.screened.contenders, kNoLimits);
  EXPECT_EQ(smallest.variant, 2U) << "its state is in other memory";
  const int64_t bytes =
      p.all.size_of(find_smallest(p.all, std::vector<size_t>{0}, kNoLimits))[Space::device];
  const auto tight = find_fastest(p.all, p.screened.contenders, device_limit(bytes));
  ASSERT_TRUE(tight);
  EXPECT_LE(p.all.size_of(*tight)[Space::device], bytes);
  EXPECT_FALSE(find_fastest(p.all, p.screened.contenders, device_limit(bytes - 1)));
}

TEST(OffloadSearch, UsesAvailableBytes) {
  Parts p;
  OffloadSearch search(p.all, p.screened.least, p.estimates, p.trials);
  const double below = OffloadSearch::kNoBound;
  SpaceBytes tight = p.all.estimate_of(0)->arena();
  tight[Space::host] = kUnlimited;
  double slower = below;
  for (const int64_t percent : {90, 95, 100}) {
    Limits limits = tight;
    limits[Space::device] = tight[Space::device] / 100 * percent;
    const auto plans = search.plans_within(p.screened.contenders, limits, below);
    ASSERT_FALSE(plans.empty()) << percent;
    for (const TriedPlan& plan : plans) {
      EXPECT_TRUE(plan.arena.fits_in(limits));
      EXPECT_GE(plan.seconds, plans.back().seconds);
      EXPECT_EQ(plan.of, 2U);
    }
    EXPECT_LE(plans.back().seconds, slower);
    slower = plans.back().seconds;
  }
  EXPECT_TRUE(search.plans_within(p.screened.contenders, device_limit(1), below).empty());
}

TEST(Trials, AreCorrectedByPlannedBytes) {
  Parts p;
  const Variant& moved = p.all.variants()[2];
  const auto tried = p.trials.within(moved, {}, 2, kNoLimits);
  ASSERT_TRUE(tried);
  EXPECT_TRUE(p.trials.within(moved, {}, 2, tried->arena));
  p.trials.correct(moved, {}, tried->arena + on_device(256));
  EXPECT_FALSE(p.trials.within(moved, {}, 2, tried->arena));
}

TEST(RunnersUp, NameTooSmallMemory) {
  EXPECT_EQ(excess_text(on_device(3048), device_limit(1000)), "2.00 KiB more than the budget");
}

}  // namespace
}  // namespace snug

// Per-layer policies where some layers' kept values move, by hand.
#include "search/moved_layers.h"

#include <gtest/gtest.h>

namespace snug {
namespace {

// Layers that keep 100 bytes, or 40 for a second more; or two of them together.
LayerPolicies plain_layers(size_t layers) {
  LayerPolicies out{.options = {{.keeps_all = true, .costs = {.kept = 100, .working = 150}},
                                {.costs = {.kept = 40, .working = 150, .seconds = 1}},
                                {.layers = 2, .costs = {.kept = 50, .working = 250, .seconds = 3}}},
                    .at = std::vector<std::vector<int>>(layers, {0, 1, 2})};
  out.at.back() = {0, 1};
  return out;
}

TEST(MovedLayers, EverySoManyButNotTheLast) {
  EXPECT_EQ(text(MovedLayers{.every = 2}.ranges(5)), "0+2");
  EXPECT_EQ(text(MovedLayers{.every = 2}.ranges(6)), "0+2+4");
  EXPECT_EQ(text(MovedLayers{.every = 1}.ranges(4)), "0-2");
  EXPECT_TRUE(MovedLayers{.every = 2}.ranges(1).empty());
}

TEST(MovedLayers, OffloadTradesTimeForBytes) {
  const MovedLayers moved{.every = 2, .link = 10, .hidden = 4};
  const LayerPolicies mixed = with_moved(plain_layers(4), moved);
  EXPECT_EQ(mixed.at, (std::vector<std::vector<int>>{{3, 4}, {0, 1}, {3, 4}, {0, 1}}))
      << "no segment has a layer that moves";
  const Costs& all = mixed.options[3].costs;
  EXPECT_EQ(all.kept, 0);
  EXPECT_EQ(all.working, 150);
  EXPECT_DOUBLE_EQ(all.seconds, 2 * 0.025 * 10 + 6) << "ten seconds each way, four of them hidden";
  EXPECT_DOUBLE_EQ(mixed.options[4].costs.seconds, 1 + 2 * 0.025 * 4) << "hidden";
  EXPECT_EQ(as_measured(mixed, {3, 1, 4, 0}), (std::vector<int>{0, 1, 1, 0}));
  EXPECT_DOUBLE_EQ(seconds_lost(mixed, moved, {3, 1, 4, 0}), 2 * 0.025 * (10 + 4));
}

TEST(MovedLayers, FrontierOffloadsWhereFasterThanRecompute) {
  const LayerPolicies plain = plain_layers(5);
  const LayerPolicies mixed = with_moved(plain, {.every = 2, .link = 1000, .hidden = 1});
  const auto seconds_in = [](const LayerPolicies& layers, int64_t bytes) {
    double fastest = 1e9;
    for (const ParetoPoint& point : pareto_frontier(layers))
      if (point.transient <= bytes) fastest = point.seconds;
    return fastest;
  };
  EXPECT_EQ(seconds_in(plain, 550), 0);
  EXPECT_EQ(seconds_in(plain, 400), 3);
  EXPECT_NEAR(seconds_in(mixed, 400), 2 * 2 * 0.025 * 0.1, 1e-9)
      << "two layers move, none is dropped";
}

}  // namespace
}  // namespace snug

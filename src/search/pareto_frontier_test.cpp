// The frontier against every assignment there is.
#include "search/pareto_frontier.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace snug {
namespace {

// What keeps more takes less time, as it should; all numbers are whole, so sums are exact.
LayerPolicies random_layers(uint32_t seed, size_t layers, int64_t range = 50) {
  std::mt19937 random(seed);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random()) % n; };
  LayerPolicies out{.before = {.kept = below(50), .working = below(200)},
                    .after = {.kept = below(50), .working = below(300)},
                    .other_programs = below(400)};
  out.at.resize(layers);
  for (int o = 0; o < 8; ++o) {
    const int64_t kept = below(2 * range);
    out.options.push_back({.layers = static_cast<int32_t>(1 + o / 4),
                           .costs = {.kept = kept,
                                     .working = kept + below(4 * range),
                                     .seconds = std::floor(static_cast<double>(range * range) /
                                                           static_cast<double>(kept + 1))}});
    for (size_t l = 0; l + static_cast<size_t>(out.options.back().layers) <= layers; ++l)
      out.at[l].push_back(o);
  }
  return out;
}

// Live bytes at every layer, as layer_costs.h says, without any recursion.
int64_t room_of(const LayerPolicies& layers, const std::vector<int>& assignment) {
  int64_t kept = layers.before.kept;
  int64_t transient = std::max(layers.before.working, layers.other_programs);
  for (const int o : assignment) {
    const Costs& costs = layers.options[static_cast<size_t>(o)].costs;
    transient = std::max(transient, kept + costs.working);
    kept += costs.kept;
  }
  return std::max(transient, kept + layers.after.working);
}

void each_mixture(const LayerPolicies& layers, size_t layer, std::vector<int>& assignment,
                  const std::function<void()>& visit) {
  if (layer == layers.at.size()) return visit();
  for (const int o : layers.at[layer]) {
    assignment.push_back(o);
    each_mixture(layers, layer + static_cast<size_t>(layers.options[static_cast<size_t>(o)].layers),
                 assignment, visit);
    assignment.pop_back();
  }
}

double seconds_of(const LayerPolicies& layers, const std::vector<int>& assignment) {
  double seconds = 0;
  for (const int o : assignment) seconds += layers.options[static_cast<size_t>(o)].costs.seconds;
  return seconds;
}

TEST(RecomputeFrontier, FrontierIsOptimal) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const LayerPolicies layers = random_layers(seed, 5);
    const auto frontier = pareto_frontier(layers);
    for (size_t i = 0; i < frontier.size(); ++i) {
      const ParetoPoint& point = frontier[i];
      EXPECT_EQ(point.transient, room_of(layers, point.options));
      EXPECT_EQ(point.seconds, seconds_of(layers, point.options));
      EXPECT_EQ(evaluate(layers, point.options).transient, point.transient);
      if (i > 0) {
        EXPECT_GT(point.transient, frontier[i - 1].transient);
        EXPECT_LT(point.seconds, frontier[i - 1].seconds);
      }
    }
    std::vector<int> assignment;
    each_mixture(layers, 0, assignment, [&] {
      const int64_t transient = room_of(layers, assignment);
      const auto best = std::find_if(frontier.rbegin(), frontier.rend(), [&](const ParetoPoint& p) {
        return p.transient <= transient;
      });
      ASSERT_NE(best, frontier.rend()) << "an assignment needs less than the frontier's least";
      EXPECT_LE(best->seconds, seconds_of(layers, assignment));
    });
  }
}

TEST(RecomputeFrontier, FewStatesKeepExtremesAndComeClose) {
  const LayerPolicies layers = random_layers(7, 60, 100'000);
  const auto exact = pareto_frontier(layers, 1'000'000);
  const auto rough = pareto_frontier(layers, 200);
  EXPECT_GT(exact.size(), 200U);
  EXPECT_LE(rough.size(), 203U);
  EXPECT_EQ(rough.front().transient, exact.front().transient);
  EXPECT_EQ(rough.back().seconds, exact.back().seconds);
  for (const ParetoPoint& point : rough) {
    const auto best = std::find_if(exact.rbegin(), exact.rend(), [&](const ParetoPoint& p) {
      return p.transient <= point.transient;
    });
    EXPECT_LE(best->seconds, point.seconds);
    EXPECT_LE(point.seconds, 1.01 * best->seconds);
  }
}

}  // namespace
}  // namespace snug

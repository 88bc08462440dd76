#include "cost/lane_simulation.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "cost/step_cost.h"
#include "ir/toy_ops.h"

namespace snug {
namespace {

double step_of(const toy::Fixture& f, const std::vector<double>& seconds, const CoreShare& share) {
  const Program& p = f.module.program("p");
  return seconds_on_lanes(f.module, p, seconds_sharing(f.module, p, seconds, share));
}

// Ops on random lanes, each of which needs one of those before it.
std::vector<double> draw(toy::Fixture& f, std::mt19937& random) {
  constexpr const char* kLanes[] = {"compute", "copy_in", "comm.dp.sum"};
  std::vector<ValueId> made{f.x};
  std::vector<double> seconds;
  for (int op = 0; op < 40; ++op) {
    const ValueId from = made[random() % made.size()];
    made.push_back(f.unary_on(kLanes[random() % 3], fmt::format("op{}", op), from));
    seconds.push_back(static_cast<double>(random() % 8));
  }
  return seconds;
}

}  // namespace

TEST(LaneSimulation, EnoughCoresSlowNothing) {
  std::mt19937 random(3);
  for (int round = 0; round < 30; ++round) {
    toy::Fixture f;
    const std::vector<double> seconds = draw(f, random);
    const std::vector<double> sharing =
        seconds_sharing(f.module, f.module.program("p"), seconds, {.cores = 4, .compute = 2});
    for (size_t op = 0; op < seconds.size(); ++op)
      EXPECT_NEAR(sharing[op], seconds[op], 1e-9) << "round " << round << ", op " << op;
  }
}

TEST(LaneSimulation, OneCoreAddsUpLanes) {
  std::mt19937 random(4);
  for (int round = 0; round < 30; ++round) {
    toy::Fixture f;
    const std::vector<double> seconds = draw(f, random);
    const double all = std::accumulate(seconds.begin(), seconds.end(), 0.0);
    EXPECT_NEAR(step_of(f, seconds, {.cores = 1, .compute = 1}), all, 1e-9 * all);
  }
}

TEST(LaneSimulation, ConcurrentOpsShareCores) {
  toy::Fixture f;
  f.unary_on("copy_in", "in", f.x);
  f.unary_on("compute", "a", f.x);
  const auto sharing = [&](const CoreShare& share) {
    return seconds_sharing(f.module, f.module.program("p"), {4, 6}, share);
  };
  // Both at half the pace until 8; then 2 are left for the computation alone.
  EXPECT_EQ(sharing({.cores = 1, .compute = 1}), (std::vector<double>{8, 10}));
  // Three cores are asked for, two are there: 1.5 times as long until 6.
  EXPECT_EQ(sharing({.cores = 2, .compute = 2}), (std::vector<double>{6, 8}));
  // More threads than cores are slow even alone: 4 of 3 cores' work, then 2 of 1.5.
  EXPECT_EQ(sharing({.cores = 2, .compute = 3}), (std::vector<double>{8, 11}));
}

}  // namespace snug

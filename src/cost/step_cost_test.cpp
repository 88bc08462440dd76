#include "cost/step_cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "compile/compile.h"
#include "ir/toy_ops.h"
#include "models/model.h"
#include "settings/parse.h"

namespace snug {
namespace {

Module compiled(const char* policy, int64_t accum) {
  return compile(
      "tiny", Model::load("snug-tiny").forward({.batch = 1, .seq = 64}),
      {.accum = accum, .recompute = parse_setting<RecomputePolicy>(policy, "recompute")});
}

TEST(StepCost, OpTimeCombinesArithmeticAndTraffic) {
  const Module module = compiled("none", 1);
  DeviceSpec only_arithmetic = this_cpu(1), only_traffic = this_cpu(1);
  only_arithmetic.bytes_per_s = only_traffic.fp32_flops = 1e30;
  for (const Op& op : module.program("micro_first").ops) {
    const double both = CostModel(this_cpu(1), {}).seconds(module, op);
    const double arithmetic = CostModel(only_arithmetic, {}).seconds(module, op);
    const double traffic = CostModel(only_traffic, {}).seconds(module, op);
    EXPECT_GE(both, std::max(arithmetic, traffic)) << op.name;
    EXPECT_LE(both, std::max(arithmetic, traffic) + std::min(arithmetic, traffic) / 2) << op.name;
  }
}

TEST(StepCost, StepCountsMicroBatchesAndRepeats) {
  const CostModel model = nominal_model(Backend::cpu);
  const auto cost = [&](const char* policy, int64_t accum) {
    return step_cost(compiled(policy, accum), model);
  };
  EXPECT_EQ(cost("none", 1).repeat_seconds, 0);
  const StepCost one = cost("full", 1);
  const StepCost four = cost("full", 4);
  EXPECT_GT(one.repeat_seconds, 0);
  EXPECT_NEAR(one.step_seconds - cost("none", 1).step_seconds, one.repeat_seconds,
              1e-6 * one.step_seconds);
  EXPECT_NEAR(four.repeat_seconds, 4 * one.repeat_seconds, 1e-9 * four.repeat_seconds);
  EXPECT_GT(four.step_seconds, 2 * one.step_seconds);
  EXPECT_LT(four.step_seconds, 4.5 * one.step_seconds) << "the update runs once";
}

// Two prefetches of 4 s and three computations of 1, 2 and 3 s, the second of which needs the
// first prefetch, the third the second.
TEST(StepCost, LanesRunConcurrently) {
  toy::Fixture f;
  const ValueId w1 = f.unary_on("copy_in", "w1", f.x);
  const ValueId w2 = f.unary_on("copy_in", "w2", f.x);
  const ValueId a = f.unary_on("compute", "a", f.x);
  const ValueId c = f.b.emit(toy::add, "b", {a, w1})[0];
  f.b.emit(toy::add, "c", {c, w2});
  const Program& p = f.module.program("p");
  const auto seconds = [&](std::vector<double> each) {
    return seconds_on_lanes(f.module, p, each);
  };
  EXPECT_EQ(seconds({4, 4, 1, 2, 3}), 8 + 3) << "compute waits for the copies";
  EXPECT_EQ(seconds({1, 1, 5, 2, 3}), 5 + 2 + 3) << "the copies are hidden";
  EXPECT_EQ(seconds({1, 1, 1, 1, 20}), 22);
  EXPECT_EQ(seconds({1, 90, 1, 1, 0}), 91);
}

struct Lane {
  std::string name;
  double busy = 0, exposed = 0;
  friend bool operator==(const Lane&, const Lane&) = default;
  friend void PrintTo(const Lane& l, std::ostream* out) {
    *out << l.name << " busy " << l.busy << " exposed " << l.exposed;
  }
};
std::vector<Lane> lanes_of(const toy::Fixture& f, const std::vector<double>& seconds) {
  std::vector<Lane> lanes;
  for (const LaneCost& l : lane_costs(f.module, f.module.program("p"), seconds)) {
    lanes.push_back({l.lane, l.busy_seconds, l.exposed_seconds});
    EXPECT_EQ(l.hidden_seconds(), l.busy_seconds - l.exposed_seconds);
  }
  return lanes;
}

// The same program: two prefetches, each before one of three computations.
TEST(LaneCosts, ExposedIsTimeSavedWithoutLane) {
  using Lanes = std::vector<Lane>;
  toy::Fixture f;
  const ValueId w1 = f.unary_on("copy_in", "w1", f.x);
  const ValueId w2 = f.unary_on("copy_in", "w2", f.x);
  const ValueId a = f.unary_on("compute", "a", f.x);
  const ValueId c = f.b.emit(toy::add, "b", {a, w1})[0];
  f.b.emit(toy::add, "c", {c, w2});
  // copy_in 0..4..8, compute 0..1 waits 4..6 waits 8..11; without copies 6, without compute 8.
  EXPECT_EQ(lanes_of(f, {4, 4, 1, 2, 3}), (Lanes{{"copy_in", 8, 5}, {"compute", 6, 3}}));
  // Compute hides both copies: 10 with and without.
  EXPECT_EQ(lanes_of(f, {1, 1, 5, 2, 3}), (Lanes{{"copy_in", 2, 0}, {"compute", 10, 8}}));
  // Nothing hides the first copy, b hides the second: 3 + 9 + 1 = 13, and 10 without.
  EXPECT_EQ(lanes_of(f, {3, 4, 0, 9, 1}), (Lanes{{"copy_in", 7, 3}, {"compute", 10, 6}}));
}

// Each lane may be exposed by nothing where two of them hide each other: 5 without either.
TEST(LaneCosts, TwoLanesOfTheSameLengthHideEachOther) {
  toy::Fixture f;
  f.unary_on("copy_in", "in", f.x);
  f.unary_on("copy_out", "out", f.x);
  const std::vector<Lane> lanes = lanes_of(f, {5, 5});
  EXPECT_EQ(lanes, (std::vector<Lane>{{"copy_in", 5, 0}, {"copy_out", 5, 0}}));
}

// On one core both take longer while both run: without the copy the step would take 6, and 4 without
// the computation.
TEST(LaneCosts, SharedCoreExposesSlowdownOfOthers) {
  toy::Fixture f;
  f.unary_on("copy_in", "in", f.x);
  f.unary_on("compute", "a", f.x);
  const std::vector<double> alone{4, 6};
  const auto lanes =
      lane_costs(f.module, f.module.program("p"), alone, CoreShare{.cores = 1, .compute = 1});
  EXPECT_EQ(lanes[0].busy_seconds, 8);
  EXPECT_EQ(lanes[0].exposed_seconds, 4);
  EXPECT_EQ(lanes[1].busy_seconds, 10);
  EXPECT_EQ(lanes[1].exposed_seconds, 6);
}

TEST(LaneCosts, OneLaneIsAllExposed) {
  toy::Fixture f;
  f.unary_on("compute", "b", f.unary_on("compute", "a", f.x));
  EXPECT_EQ(lanes_of(f, {1, 2}), (std::vector<Lane>{{"compute", 3, 3}}));
}

// Whatever the program: an op chain over random lanes with random times.
TEST(LaneCosts, ExposedIsNeverBelowZeroNorAboveBusy) {
  constexpr const char* kLanes[] = {"compute", "copy_in", "copy_out", "host_compute"};
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    toy::Fixture f;
    std::vector<ValueId> made{f.x};
    std::vector<double> seconds;
    for (int op = 0; op < 30; ++op) {
      const ValueId from = made[random() % made.size()];
      made.push_back(f.unary_on(kLanes[random() % 4], fmt::format("op{}", op), from));
      seconds.push_back(static_cast<double>(random() % 100));
    }
    const Program& p = f.module.program("p");
    const double whole = seconds_on_lanes(f.module, p, seconds);
    for (const LaneCost& lane : lane_costs(f.module, p, seconds)) {
      EXPECT_GE(lane.exposed_seconds, 0);
      EXPECT_GE(lane.hidden_seconds(), 0);
      EXPECT_LE(lane.busy_seconds, whole);
    }
  }
}

// A weight is prefetched from the host for every micro-batch, and written back in the update.
TEST(LaneCosts, StepCountsRunsAndMovedBytes) {
  Module module{.name = "toy"};
  const Type large{Dtype::f32, {1 << 20}};
  const ValueId on_host = add_shared(module, "w", large, Category::params, Scope::persistent);
  module[on_host].space = Space::host;
  Builder micro(module, "micro");
  const ValueId here = micro.emit(toy::copy, "fetch", {on_host})[0];
  micro.last().lane = "copy_in";
  micro.emit(toy::unary, "use", {here});
  Builder update(module, "update");
  const ValueId next = update.emit(toy::copy, "again", {on_host})[0];
  update.last().lane = "copy_in";
  update.emit_into(toy::copy, "back", {next}, on_host);
  update.last().lane = "copy_out";
  module.step = {{3, {"micro"}}, {1, {"update"}}};

  const CostModel h200(find_device("h200"), {});
  const std::vector<LaneCost> lanes = lane_costs(module, h200);
  ASSERT_EQ(lanes.size(), 3U);
  EXPECT_EQ(lanes[0].lane, "compute");
  EXPECT_EQ(lanes[1].lane, "copy_in");
  EXPECT_EQ(lanes[2].lane, "copy_out");
  EXPECT_EQ(lanes[0].moved_bytes, 0);
  EXPECT_EQ(lanes[1].moved_bytes, 4 * 4 << 20);
  EXPECT_EQ(lanes[2].moved_bytes, 4 << 20);
  const auto seconds = [&](const char* program, size_t op) {
    return h200.seconds(module, module.program(program))[op];
  };
  EXPECT_DOUBLE_EQ(lanes[0].busy_seconds, 3 * seconds("micro", 1));
  EXPECT_DOUBLE_EQ(lanes[1].busy_seconds, 3 * seconds("micro", 0) + seconds("update", 0));
  EXPECT_DOUBLE_EQ(lanes[2].busy_seconds, seconds("update", 1));
  // Nothing overlaps here.
  double exposed = 0;
  for (const LaneCost& lane : lanes) exposed += lane.exposed_seconds;
  EXPECT_DOUBLE_EQ(exposed, step_cost(module, h200).step_seconds);
}

TEST(StepCost, OneLaneIsSumOfOps) {
  toy::Fixture f;
  const Program& p = f.module.program("p");
  EXPECT_EQ(seconds_on_lanes(f.module, p, {}), 0);
  f.unary_on("compute", "b", f.unary_on("compute", "a", f.x));
  EXPECT_EQ(seconds_on_lanes(f.module, p, std::vector<double>{1, 2}), 3);
}

// An order given by name holds across lanes too.
TEST(StepCost, OpWaitsForItsPredecessor) {
  toy::Fixture f;
  f.unary_on("copy_out", "out", f.x);
  f.unary_on("compute", "a", f.x);
  f.b.last().after = {"out"};
  EXPECT_EQ(seconds_on_lanes(f.module, f.module.program("p"), std::vector<double>{7, 1}), 8);
}

TEST(StepCost, PredictedSpansAreTheStepOpByOp) {
  const CostModel model = nominal_model(Backend::cpu);
  const Module module = compiled("full", 3);
  const std::vector<Span> spans = predicted_spans(module, model);
  size_t ops = 0;
  double busy = 0, free = 0;
  for (const Program& program : module.programs)
    ops += program.ops.size() * static_cast<size_t>(runs_per_step(module, program.name));
  EXPECT_EQ(spans.size(), ops);
  for (const Span& span : spans) {
    EXPECT_EQ(span.origin, SpanOrigin::predicted);
    EXPECT_GE(span.begin, free * (1 - 1e-12)) << "overlaps the one before";
    free = span.end;
    busy += span.seconds();
  }
  const double step = step_cost(module, model).step_seconds;
  EXPECT_NEAR(spans.back().end, step, 1e-9 * step);
  EXPECT_NEAR(busy, step, 1e-9 * step) << "one lane is always busy";
  EXPECT_EQ(spans.back().run, 3) << "three micro-batches and the update";
}

}  // namespace
}  // namespace snug

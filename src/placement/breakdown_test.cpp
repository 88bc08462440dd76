#include "placement/breakdown.h"

#include <gtest/gtest.h>

#include "ir/lifetime.h"
#include "ir/toy_ops.h"

namespace snug {
namespace {

const Type kHundred{Dtype::f32, {100}};

int64_t of(const CategoryBytes& bytes, Category c) { return bytes[static_cast<size_t>(c)]; }

// w -> a (layer 0) -> b (layer 1), back through grad.b, grad.a into grad.w, then the update.
struct Step {
  Module module{.name = "toy"};

  Step() {
    const ValueId w = add_shared(module, "w", kHundred, Category::params, Scope::persistent,
                                 {.role = Role::matrix}, 0);
    const ValueId frozen = add_shared(module, "frozen", {Dtype::f32, {7}}, Category::params,
                                      Scope::persistent, {.trainable = false});
    const ValueId dw = add_shared(module, "grad.w", kHundred, Category::grads, Scope::step, {}, 0);
    (void)frozen;
    Builder b(module, ProgramRole::training_first);
    b.set_layer(0);
    const ValueId a = b.emit(toy::unary, "a", {w})[0];
    b.set_layer(1);
    const ValueId c = b.emit(toy::unary, "b", {a})[0];
    b.set_phase(Phase::backward);
    const ValueId dc = b.emit(toy::add, "db", {c, a})[0];
    b.set_layer(0);
    b.emit_into(toy::wgrad, "dw", {dc}, dw);
    with_scratch(b);
    Builder u(module, ProgramRole::update);
    u.set_phase(Phase::update);
    u.emit(toy::update, "update.w", {w, dw});
    module.step = {{3, {"micro_first"}}, {1, {"update"}}};
    compute_lifetimes(module);
    module.level = Level::step;
    place(module);
  }

  void with_scratch(Builder& b) {
    Value scratch{.name = "scratch", .type = {Dtype::u8, {500}}, .category = Category::workspace};
    scratch.program = 0;
    scratch.layer = 0;
    b.last().workspace = module.add(scratch);
  }
};

TEST(MemoryBreakdown, BreakdownAndGapsAddUpToTheArena) {
  const Step step;
  const MemoryBreakdown memory = memory_breakdown(step.module);
  for (const SpaceBreakdown& space : memory.spaces) {
    EXPECT_EQ(total(space.breakdown) + space.gaps, space.placement.arena_bytes);
    EXPECT_EQ(total(space.breakdown), space.placement.max_live_bytes);
    EXPECT_GE(space.gaps, 0);
  }
}

TEST(MemoryBreakdown, AgreesWithPlacement) {
  Step step;
  step.module.level = Level::step;
  const auto said = place(step.module);
  const MemoryBreakdown memory = memory_breakdown(step.module);
  for (size_t s = 0; s < said.size(); ++s) {
    const PlacementStats& counted = memory.spaces[s].placement;
    EXPECT_EQ(counted.arena_bytes, said[s].arena_bytes);
    EXPECT_EQ(counted.max_live_bytes, said[s].max_live_bytes);
    EXPECT_EQ(counted.transient_arena_bytes, said[s].transient_arena_bytes);
    EXPECT_EQ(counted.transient_max_live_bytes, said[s].transient_max_live_bytes);
  }
}

TEST(MemoryBreakdown, PeakHasMostLiveBytes) {
  const MemoryBreakdown memory = memory_breakdown(Step().module);
  const Peak& peak = memory.device().peak;
  EXPECT_EQ(peak.program, "micro_first");
  EXPECT_EQ(peak.op, "db");  // a, b and db: three arrays of 400 bytes
  EXPECT_EQ(peak.op_index, 2);
  EXPECT_EQ(peak.layer, 1);
  EXPECT_EQ(peak.phase, Phase::backward);
  EXPECT_EQ(of(memory.device().breakdown, Category::activations), 1200);
  EXPECT_EQ(of(memory.device().breakdown, Category::params), 428);
  EXPECT_EQ(of(memory.device().breakdown, Category::workspace), 0);
}

TEST(MemoryBreakdown, PhasesHaveOwnPeaks) {
  const MemoryBreakdown memory = memory_breakdown(Step().module);
  const SpaceBreakdown& device = memory.device();
  const auto [forward, backward, update] = device.phase_peaks;
  EXPECT_EQ(backward, device.placement.max_live_bytes);
  EXPECT_EQ(forward, backward - 400) << "without db";
  EXPECT_EQ(update, total(memory.shared)) << "no transient values";
}

TEST(MemoryBreakdown, CategoriesHaveOwnPeaks) {
  const MemoryBreakdown memory = memory_breakdown(Step().module);
  EXPECT_EQ(of(memory.device().category_peaks, Category::workspace), 500);
  EXPECT_EQ(of(memory.device().category_peaks, Category::grads), 400);
}

TEST(MemoryBreakdown, LayersOwnTheirBytes) {
  const MemoryBreakdown memory = memory_breakdown(Step().module);
  ASSERT_EQ(memory.layers.size(), 3U);
  EXPECT_EQ(memory.layers[0].layer, kNoLayer);
  EXPECT_EQ(memory.layers[0].params, 28);
  EXPECT_EQ(memory.layers[1].params, 400);
  EXPECT_EQ(memory.layers[1].grads, 400);
  EXPECT_EQ(memory.layers[1].kept, 400);  // a
  EXPECT_EQ(memory.layers[2].kept, 400);  // b
  int64_t at_peak = 0;
  for (const LayerBreakdown& layer : memory.layers) at_peak += layer.at_peak;
  EXPECT_EQ(at_peak, memory.device().placement.max_live_bytes);
}

TEST(MemoryBreakdown, LargestValuesComeFirst) {
  const MemoryBreakdown memory = memory_breakdown(Step().module);
  const auto& largest = memory.device().largest;
  ASSERT_EQ(largest.size(), 6U);  // w, grad.w, a, b, db and at last frozen
  EXPECT_EQ(largest.front().bytes, 400);
  EXPECT_EQ(largest.back().name, "frozen");
}

TEST(MemoryBreakdown, FrozenParametersAreSeparate) {
  const MemoryBreakdown memory = memory_breakdown(Step().module);
  EXPECT_EQ(memory.trainable_params, 100);
  EXPECT_EQ(memory.frozen_params, 7);
  EXPECT_EQ(of(memory.shared, Category::params), 428);
}

TEST(MemoryBreakdown, StepCountsEveryRun) {
  const MemoryBreakdown memory = memory_breakdown(Step().module);
  ASSERT_EQ(memory.programs.size(), 2U);
  EXPECT_EQ(memory.programs[0].runs_per_step, 3);
  EXPECT_EQ(memory.programs[0].ops, 4);
  const auto backward = static_cast<size_t>(Phase::backward);
  EXPECT_EQ(memory.programs[0].flops[backward], 100);  // wgrad's
  EXPECT_EQ(memory.step_flops[backward], 300);
}

TEST(MemoryBreakdown, TimelineFollowsTheOps) {
  const Step step;
  const auto live = timeline(step.module, 0, Space::device);
  ASSERT_EQ(live.size(), 4U);
  EXPECT_EQ(of(live[0], Category::activations), 400);
  EXPECT_EQ(of(live[1], Category::activations), 800);
  EXPECT_EQ(of(live[2], Category::activations), 1200);
  EXPECT_EQ(of(live[3], Category::activations), 400);
  EXPECT_EQ(of(live[3], Category::workspace), 500);
}

TEST(MemoryBreakdown, OnlyAPlacedModuleHasOne) {
  Module module{.name = "toy", .level = Level::step};
  EXPECT_THROW(memory_breakdown(module), Error);
}

}  // namespace
}  // namespace snug

#include "placement/placement.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/lifetime.h"
#include "ir/toy_ops.h"

namespace snug {
namespace {

const Type kHundred{Dtype::f32, {100}};  // 400 bytes: 512 when aligned

// A chain of `n` ops: every value is read by the next op only.
void chain(Module& module, std::string_view program, ValueId x, int n) {
  Builder b(module, program);
  for (int i = 0; i < n; ++i) x = b.emit(toy::unary, "f" + std::to_string(i), {x})[0];
}

Module step_module(int ops_in_first, int ops_in_second) {
  Module module{.name = "toy"};
  const ValueId w = add_shared(module, "w", kHundred, Category::params, Scope::persistent);
  add_shared(module, "grad.w", kHundred, Category::grads, Scope::step);
  chain(module, "micro_first", w, ops_in_first);
  chain(module, "eval", w, ops_in_second);
  compute_lifetimes(module);
  module.level = Level::step;
  return module;
}

TEST(Placement, SharedValuesComeFirstInDeclarationOrder) {
  Module module = step_module(3, 1);
  place(module);
  EXPECT_EQ(module.level, Level::placed);
  EXPECT_EQ(module[module.find_shared("w")].offset, 0);
  EXPECT_EQ(module[module.find_shared("grad.w")].offset, 512);
  for (const Value& value : module.values) {
    if (value.shared()) continue;
    EXPECT_GE(value.offset.value(), 1024) << value.name;
  }
}

TEST(Placement, ArenaEndsAtTallestProgram) {
  Module module = step_module(5, 1);
  const PlacementStats stats = place(module)[0];
  EXPECT_EQ(stats.transient_arena_bytes, 512 + 400);  // two neighbours of the chain
  EXPECT_EQ(stats.transient_max_live_bytes, 800);
  EXPECT_EQ(stats.arena_bytes, 1024 + 912);
  EXPECT_EQ(stats.max_live_bytes, 800 + 800);
  EXPECT_EQ(module.arena_bytes[0], stats.arena_bytes);
  EXPECT_DOUBLE_EQ(stats.ratio(), 912.0 / 800.0);
}

TEST(Placement, ProgramsShareStartOffset) {
  Module module = step_module(4, 4);
  place(module);
  int64_t lowest[2] = {1 << 20, 1 << 20};
  for (const Value& value : module.values) {
    if (!value.shared()) lowest[value.program] = std::min(lowest[value.program], *value.offset);
  }
  EXPECT_EQ(lowest[0], 1024);
  EXPECT_EQ(lowest[1], 1024);
}

TEST(Placement, ArenaWithoutLocalsIsSharedValues) {
  Module module = step_module(0, 0);
  const PlacementStats stats = place(module)[0];
  EXPECT_EQ(stats.arena_bytes, 912);
  EXPECT_DOUBLE_EQ(stats.ratio(), 1);
}

TEST(Placement, SpacesHaveOwnArenaAndAlignment) {
  Module module{.name = "toy"};
  const ValueId on_device = add_shared(module, "w", kHundred, Category::params, Scope::persistent);
  for (const char* name : {"m", "v"}) {
    const ValueId id = add_shared(module, name, kHundred, Category::optimizer, Scope::persistent);
    module[id].space = Space::disk;
  }
  Builder b(module, "update");
  module[b.emit(toy::copy, "out", {on_device})[0]].space = Space::host;
  compute_lifetimes(module);
  module.level = Level::step;
  const auto stats = place(module);
  EXPECT_EQ(stats[static_cast<size_t>(Space::device)].arena_bytes, 400);
  EXPECT_EQ(stats[static_cast<size_t>(Space::host)].arena_bytes, 400);
  EXPECT_EQ(stats[static_cast<size_t>(Space::disk)].arena_bytes, 4096 + 400);
}

TEST(Placement, UnusedValuesTakeNoBytes) {
  Module module = step_module(2, 0);
  Value unused{.name = "unused", .type = kHundred};
  unused.program = 0;
  module.add(unused);
  EXPECT_EQ(place(module)[0].transient_max_live_bytes, 800);
  EXPECT_FALSE(module.values.back().offset.has_value());
}

TEST(Placement, SameModuleGetsSameOffsets) {
  Module a = step_module(40, 7);
  Module b = step_module(40, 7);
  place(a);
  place(b);
  for (size_t i = 0; i < a.values.size(); ++i) EXPECT_EQ(a.values[i].offset, b.values[i].offset);
}

TEST(Placement, OnlyAStepCanBePlaced) {
  Module module{.name = "toy"};
  EXPECT_THROW(place(module), Error);
}

TEST(Placement, ArenaBeyond63BitsIsRefused) {
  Module module{.name = "toy", .level = Level::step};
  for (const char* name : {"a", "b", "c"}) {
    add_shared(module, name, {Dtype::u8, {int64_t{1} << 62}}, Category::params, Scope::persistent);
  }
  EXPECT_THROW(place(module), Error);
}

}  // namespace
}  // namespace snug

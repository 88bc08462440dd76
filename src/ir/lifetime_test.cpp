#include "ir/lifetime.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "ir/toy_ops.h"

namespace snug {
namespace {

using toy::Fixture;

Lifetime ops(int32_t first, int32_t last) { return {first, last}; }

TEST(Lifetime, OneLaneLifetimeIsFirstWriteToLastUse) {
  Fixture f;
  const ValueId a = f.b.emit(toy::unary, "a", {f.x})[0];
  const ValueId b = f.b.emit(toy::unary, "b", {a})[0];
  const ValueId c = f.b.emit(toy::add, "c", {a, b})[0];
  compute_lifetimes(f.module);
  EXPECT_EQ(f.live(a), ops(0, 2));
  EXPECT_EQ(f.live(b), ops(1, 2));
  EXPECT_EQ(f.live(c), ops(2, 2));
  EXPECT_FALSE(f.module[f.x].live);
}

TEST(Lifetime, DerivedValuesKeepTheirRootAlive) {
  Fixture f;
  const ValueId a = f.b.emit(toy::unary, "a", {f.x})[0];
  const ValueId half = f.b.view(a, "half", {32}, 32);
  const ValueId next = f.b.emit(toy::unary, "next", {a})[0];
  f.module[next].base = a;
  const ValueId ok = f.b.emit(toy::finite, "ok", {next})[0];
  f.b.emit(toy::unary, "use", {half});
  f.b.last().predicate = ok;
  compute_lifetimes(f.module);
  EXPECT_EQ(f.live(a), ops(0, 3));
  EXPECT_EQ(f.live(ok), ops(2, 3));
  EXPECT_FALSE(f.module[half].live);
  EXPECT_FALSE(f.module[next].live);
}

TEST(Lifetime, WorkspaceLivesForItsOp) {
  Fixture f;
  f.b.emit(toy::unary, "a", {f.x});
  f.b.emit(toy::wgrad, "w", {f.x});
  const ValueId scratch =
      f.module.add({.name = "w.scratch", .type = {Dtype::u8, {512}}, .program = 0});
  f.b.last().workspace = scratch;
  f.b.emit(toy::unary, "c", {f.x});
  compute_lifetimes(f.module);
  EXPECT_EQ(f.live(scratch), ops(1, 1));
}

// A prefetch that waits for nothing may run from the program's start on.
TEST(Lifetime, PrefetchMayRunEarly) {
  Fixture f;
  const ValueId a = f.unary_on("compute", "a", f.x);
  const ValueId b = f.unary_on("compute", "b", a);
  const ValueId fetched = f.unary_on("copy_in", "fetched", f.x);
  f.b.emit(toy::add, "use", {b, fetched});
  compute_lifetimes(f.module);
  EXPECT_EQ(f.live(fetched), ops(0, 3));
  EXPECT_EQ(f.live(a), ops(0, 1));
}

TEST(Lifetime, PrefetchIsDelayedByAfter) {
  Fixture f;
  const ValueId a = f.unary_on("compute", "a", f.x);
  const ValueId b = f.unary_on("compute", "b", a);
  const ValueId fetched = f.unary_on("copy_in", "fetched", f.x);
  f.b.last().after = {"a"};
  f.b.emit(toy::add, "use", {b, fetched});
  compute_lifetimes(f.module);
  EXPECT_EQ(f.live(fetched), ops(1, 3));
}

// A copy out may lag: its source is kept until the compute lane has waited for it.
TEST(Lifetime, CopyOutMayLag) {
  Fixture f;
  const ValueId a = f.unary_on("compute", "a", f.x);
  const ValueId saved = f.unary_on("copy_out", "saved", a);
  const ValueId c = f.unary_on("compute", "c", f.x);
  const ValueId d = f.unary_on("compute", "d", c);
  f.b.emit(toy::add, "join", {d, saved});
  compute_lifetimes(f.module);
  EXPECT_EQ(f.live(a), ops(0, 3));
  EXPECT_EQ(f.live(c), ops(2, 3));
}

TEST(Lifetime, UnwaitedCopyOutLastsToEnd) {
  Fixture f;
  const ValueId a = f.unary_on("compute", "a", f.x);
  f.unary_on("copy_out", "saved", a);
  f.unary_on("compute", "c", f.x);
  f.unary_on("compute", "d", f.x);
  compute_lifetimes(f.module);
  EXPECT_EQ(f.live(a), ops(0, 3));
}

// An op that only works in place takes no bytes, so a lagging copy does not matter to it.
TEST(Lifetime, CopyOutOverlapsInPlaceOps) {
  Fixture f;
  const ValueId a = f.unary_on("compute", "a", f.x);
  f.unary_on("copy_out", "saved", a);
  f.module[f.unary_on("compute", "c", f.x)].base = f.x;
  compute_lifetimes(f.module);
  EXPECT_EQ(f.live(a), ops(0, 1));
}

TEST(Order, ReadersWaitForWritersAndWritersForReaders) {
  Fixture f;
  const ValueId a = f.unary_on("compute", "a", f.x);      // 0
  f.unary_on("copy_out", "saved", a);                     // 1 reads a
  const ValueId next = f.unary_on("compute", "next", a);  // 2 overwrites a
  f.module[next].base = a;
  f.unary_on("compute", "last", next);  // 3
  const Order order(f.module, f.module.program("p"));
  EXPECT_EQ(std::vector(order.waits(1).begin(), order.waits(1).end()), std::vector<int32_t>{0});
  EXPECT_EQ(std::vector(order.waits(2).begin(), order.waits(2).end()), std::vector<int32_t>{1});
  EXPECT_TRUE(order.waits(3).empty());
  EXPECT_TRUE(order.before(1, 3));
}

// Chunks of one storage do not wait for each other: this is what lets a staged update overlap.
TEST(Order, DisjointViewsAreIndependent) {
  Fixture f;
  const ValueId low = f.b.view(f.x, "low", {32}, 0);
  const ValueId high = f.b.view(f.x, "high", {32}, 32);
  const ValueId a = f.unary_on("copy_in", "a", low);
  const ValueId back = f.unary_on("copy_out", "back", a);
  f.module[back].base = low;
  f.unary_on("copy_in", "b", high);
  f.unary_on("copy_in", "c", back);
  const Order order(f.module, f.module.program("p"));
  EXPECT_FALSE(order.before(1, 2));
  EXPECT_TRUE(order.before(1, 3));
}

TEST(Order, RefusesToWaitForALaterOp) {
  Fixture f;
  f.unary_on("compute", "a", f.x);
  f.b.last().after = {"b"};
  f.unary_on("compute", "b", f.x);
  EXPECT_THROW(Order(f.module, f.module.program("p")), Error);
}

// What is still running on another lane does not matter where it has no bytes that come and go.
TEST(Lifetime, WorkOnSharedValuesBlocksNoOp) {
  Fixture f;
  const ValueId a = f.unary_on("compute", "a", f.x);
  f.module[f.unary_on("comm", "in_place", f.x)].base = f.x;
  const ValueId b = f.unary_on("compute", "b", a);
  const ValueId fetched = f.unary_on("copy_in", "fetched", b);
  f.unary_on("compute", "use", fetched);
  compute_lifetimes(f.module);
  EXPECT_EQ(f.live(fetched), ops(3, 4));
}

// The promise itself, on random programs: values with disjoint lifetimes are ordered, all uses
// before the other's write.
TEST(Lifetime, DisjointLifetimesNeverOverlap) {
  std::mt19937 random(7);
  const char* lanes[] = {"compute", "copy_in", "copy_out", "comm"};
  for (int round = 0; round < 50; ++round) {
    Fixture f;
    std::vector<ValueId> made{f.x};
    std::vector<std::vector<int32_t>> uses{{}};
    for (int32_t i = 0; i < 60; ++i) {
      const char* lane = lanes[random() % (1 + static_cast<unsigned>(round) % 4)];
      if (random() % 8 == 0) {
        f.module[f.unary_on(lane, "shared", f.x)].base = f.x;
        continue;
      }
      const size_t from = made.size() > 6 && random() % 4 != 0 ? made.size() - 1 - random() % 6 : 0;
      uses[from].push_back(i);
      made.push_back(f.unary_on(lane, "v", made[from]));
      uses.push_back({i});
    }
    compute_lifetimes(f.module);
    const Order order(f.module, f.module.program("p"));
    for (size_t a = 1; a < made.size(); ++a) {
      for (size_t b = 1; b < made.size(); ++b) {
        if (f.live(made[a]).last >= f.live(made[b]).first) continue;
        for (int32_t use : uses[a]) ASSERT_TRUE(order.before(use, uses[b][0])) << round;
      }
    }
  }
}

TEST(Extents, RefusesACircle) {
  Fixture f;
  const ValueId a = f.b.view(f.x, "a", {64}, 0);
  const ValueId b = f.b.view(a, "b", {64}, 0);
  f.module[a].base = b;
  EXPECT_THROW(extents_of(f.module), Error);
}

}  // namespace
}  // namespace snug

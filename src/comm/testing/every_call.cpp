#include "comm/testing/every_call.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/half.h"

namespace snug {
namespace {

using Bytes = std::vector<std::byte>;

// Differs from rank to rank, block to block and byte to byte.
std::byte expected(int from, int block, int64_t i) {
  return static_cast<std::byte>((from * 97 + block * 31 + i * 7 + (i >> 8) + (i >> 16)) & 255);
}
void fill(std::byte* to, int64_t bytes, int from, int block) {
  for (int64_t i = 0; i < bytes; ++i) to[i] = expected(from, block, i);
}
::testing::AssertionResult holds(const std::byte* got, int64_t bytes, int from, int block) {
  for (int64_t i = 0; i < bytes; ++i)
    if (got[i] != expected(from, block, i))
      return ::testing::AssertionFailure()
             << "byte " << i << " of block " << block << " of rank " << from << " differs";
  return ::testing::AssertionSuccess();
}

struct Check {
  Communicator& c;
  int64_t block;
  int me = c.rank(), n = c.ranks();
  Bytes some = Bytes(static_cast<size_t>(block)), from = Bytes(static_cast<size_t>(block * n)),
        to = from;

  void clear() { std::ranges::fill(to, std::byte{0xEE}); }

  void gather() {
    fill(some.data(), block, me, 1);
    clear();
    c.all_gather(some, to.data(), nullptr);
    for (int r = 0; r < n; ++r) EXPECT_TRUE(holds(to.data() + r * block, block, r, 1));
    clear();
    std::byte* mine = to.data() + me * block;
    fill(mine, block, me, 2);
    c.all_gather({mine, static_cast<size_t>(block)}, to.data(), nullptr);
    for (int r = 0; r < n; ++r) EXPECT_TRUE(holds(to.data() + r * block, block, r, 2));
  }

  void transpose() {
    for (int r = 0; r < n; ++r) fill(from.data() + r * block, block, me, r);
    clear();
    c.all_to_all(from.data(), to.data(), block, nullptr);
    for (int r = 0; r < n; ++r) EXPECT_TRUE(holds(to.data() + r * block, block, r, me));
  }

  void broadcast() {
    for (int root = 0; root < n; ++root) {
      fill(some.data(), block, me, 3);
      c.broadcast(some, root, nullptr);
      EXPECT_TRUE(holds(some.data(), block, root, 3));
    }
  }

  // Neighbours in pairs, one after the other; then all at once around a ring.
  void messages() {
    fill(some.data(), block, me, 4);
    for (int pass = 0; pass < 2; ++pass) {
      const int peer = me ^ 1;
      if (peer >= n) continue;
      if ((me % 2 == 0) == (pass == 0)) {
        c.send(some, peer, nullptr);
      } else {
        clear();
        c.receive({to.data(), some.size()}, peer, nullptr);
        EXPECT_TRUE(holds(to.data(), block, peer, 4));
      }
    }
  }
  void ring() {
    if (n == 1) return;
    fill(some.data(), block, me, 5);
    clear();
    c.begin_group();
    c.send(some, (me + 1) % n, nullptr);
    c.receive({to.data(), some.size()}, (me + n - 1) % n, nullptr);
    c.end_group();
    EXPECT_TRUE(holds(to.data(), block, (me + n - 1) % n, 5));
  }

  // Numbers whose sums are exact in 16 bits, in whatever order.
  template <typename T>
  void sums(Dtype dtype) {
    const int64_t each = block / 8;
    std::vector<T> mine(static_cast<size_t>(n * each)), got(mine.size());
    const auto number = [](int rank, int64_t i) { return static_cast<float>((rank + i) % 8); };
    const auto sum_of = [&](int64_t i) {
      float sum = 0;
      for (int r = 0; r < n; ++r) sum += number(r, i);
      return sum;
    };
    for (int64_t i = 0; i < n * each; ++i) mine[static_cast<size_t>(i)] = T(number(me, i));
    const auto* in = std::as_bytes(std::span(mine)).data();
    auto* out = std::as_writable_bytes(std::span(got)).data();
    c.all_reduce(in, out, dtype, n * each, nullptr);
    for (int64_t i = 0; i < n * each; ++i)
      ASSERT_EQ(static_cast<float>(got[static_cast<size_t>(i)]), sum_of(i)) << i;
    c.reduce_scatter(in, out, dtype, each, nullptr);
    for (int64_t i = 0; i < each; ++i)
      ASSERT_EQ(static_cast<float>(got[static_cast<size_t>(i)]), sum_of(me * each + i)) << i;
  }
};

}  // namespace

void check_every_call(Communicator& group, int64_t block) {
  Check check{group, block};
  check.gather();
  check.transpose();
  check.broadcast();
  check.messages();
  group.barrier();
  check.ring();
  check.gather();
  check.sums<float>(Dtype::f32);
  check.sums<Bf16>(Dtype::bf16);
  group.barrier();
}

}  // namespace snug

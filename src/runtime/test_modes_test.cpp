#include "runtime/test_modes.h"

#include <gtest/gtest.h>

#include <set>

#include "runtime/testing/lane_program.h"
#include "runtime/testing/queued_device.h"

namespace snug {
namespace {

using testing_ops::LaneProgram;
using testing_ops::QueuedDevice;

TEST(TestPolicy, DoesNothingWithoutAMode) {
  QueuedDevice device(1);
  TestPolicy policy({});
  std::vector<std::byte> bytes(4, std::byte{1});
  const std::span<std::byte> dead[] = {bytes};
  policy.poison(device, dead);
  policy.load(device);
  for (int i = 0; i < 10; ++i) policy.delay(device, 0);
  device.synchronise();
  EXPECT_EQ(bytes, std::vector<std::byte>(4, std::byte{1}));
  EXPECT_EQ(device.delays, 0);
  EXPECT_FALSE(policy.poisons() || policy.shuffles());
}

TEST(TestPolicy, PoisonsAndDelays) {
  QueuedDevice device(1);
  TestPolicy policy({.poison_dead = true, .delay_seed = 3});
  std::vector<std::byte> bytes(4, std::byte{1});
  const std::span<std::byte> dead[] = {bytes};
  policy.poison(device, dead);
  for (int i = 0; i < 100; ++i) policy.delay(device, 0);
  device.synchronise();
  EXPECT_EQ(bytes, std::vector<std::byte>(4, std::byte{TestPolicy::kPoison}));
  EXPECT_GT(device.delays, 25);
  EXPECT_LT(device.delays, 75);
}

TEST(TestPolicy, OrdersDependOnRunAndSeed) {
  LaneProgram f(1);
  f.placed();
  const Order order(f.module, f.module.program("p"));
  std::set<std::vector<int32_t>> orders;
  TestPolicy a({.order_seed = 5}), b({.order_seed = 5});
  for (int run = 0; run < 10; ++run) {
    const std::vector<int32_t> next = a.next_order(order);
    EXPECT_EQ(next, b.next_order(order));
    orders.insert(next);
  }
  EXPECT_GT(orders.size(), 5U);
}

}  // namespace
}  // namespace snug

#include "runtime/bound_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/testing/ranks.h"
#include "ops/comm/comm.h"
#include "runtime/testing/bound.h"
#include "runtime/testing/lane_program.h"
#include "runtime/testing/queued_device.h"
#include "runtime/testing/toy_programs.h"

namespace snug {
namespace {

using ::testing::Each;
using testing_ops::Bound;
using testing_ops::Fixture;
using testing_ops::LaneProgram;
using testing_ops::QueuedDevice;

TEST(BoundProgram, RunsOpByOpOnTheHost) {
  Fixture f;
  const ValueId twice = f.b.emit(testing_ops::reverse, "twice", {f.x})[0];
  f.finish(twice, 2);
  f.placed();
  const auto device = cpu_device();
  const Bound b(f.module, *device);
  const auto values = [&](ValueId id) {
    return std::span(reinterpret_cast<float*>(b.storage.bytes(id).data()), 64);
  };
  values(f.x)[0] = 21;
  for (size_t at = 0; at < b.program.ops.size(); ++at) b.program.run_on_host(at);
  EXPECT_EQ(values(f.y)[63], 42);
  EXPECT_FALSE(b.program.order);
  ASSERT_EQ(b.program.dead(1).size(), 1U);
  EXPECT_EQ(b.program.dead(1)[0].data(), b.storage.address(twice));
  EXPECT_THAT(b.program.lanes, Each(0));
}

TEST(BoundProgram, HasDeviceLanesUnlessOpByOp) {
  LaneProgram f(1);
  f.placed();
  QueuedDevice device(1);
  const Bound lanes(f.module, device), list(f.module, device, {.one_by_one = true});
  EXPECT_TRUE(lanes.program.order && list.program.order);
  EXPECT_EQ(lanes.program.side_lanes.size() + 1, lanes.lanes.count());
  EXPECT_GT(lanes.lanes.count(), 2U);
  EXPECT_EQ(list.lanes.count(), 1U);
  EXPECT_THAT(list.program.batches, Each(1));
}

// Lane 1 writes after what lane 0 did, and lane 0 goes on after it.
TEST(DeviceLanes, ForkAndJoinOrderThem) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    QueuedDevice device(seed);
    DeviceLanes lanes(device);
    const int32_t lane = lanes.number_of("copy_in");
    EXPECT_EQ(lanes.number_of("copy_in"), lane);
    EXPECT_EQ(lanes.number_of("compute"), 0);
    std::vector<int> order;
    const std::function<void()> first = [&] { order.push_back(0); },
                                second = [&] { order.push_back(1); },
                                third = [&] { order.push_back(2); };
    device.call(first, 0);
    lanes.fork({&lane, 1});
    device.call(second, lane);
    lanes.join({&lane, 1});
    device.call(third, 0);
    device.synchronise();
    EXPECT_THAT(order, ::testing::ElementsAre(0, 1, 2));
  }
}

TEST(CollectiveCalls, UseTheGroupOfTheirLane) {
  Fixture f;
  f.finish(ops::all_reduce(f.b, "sum", f.x, {.axis = "dp", .ranks = 2}));
  f.placed();
  on_ranks(2, [&](Communicator& end) {
    const auto device = cpu_device();
    const Bound b(f.module, *device, {},
                  [&](std::string_view, std::string_view axis) -> Communicator& {
                    EXPECT_EQ(axis, "dp");
                    return end;
                  });
    auto* x = reinterpret_cast<float*>(b.storage.bytes(f.x).data());
    std::fill_n(x, 64, static_cast<float>(end.rank() + 1));
    for (size_t at = 0; at < b.program.ops.size(); ++at) b.program.run_on_host(at);
    EXPECT_EQ(reinterpret_cast<float*>(b.storage.bytes(f.y).data())[0], 3);
  });
  on_ranks(1, [&](Communicator& end) {
    const auto device = cpu_device();
    const GroupOf alone = [&](std::string_view, std::string_view) -> Communicator& { return end; };
    EXPECT_THROW(Bound(f.module, *device, {}, alone), Error) << "of another number of ranks";
  });
}

}  // namespace
}  // namespace snug

// Lanes: whatever their timing, the results have the same bits.
#include "runtime/lanes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <set>

#include "hal/cpu/cpu_device.h"
#include "ops/basic/copy.h"
#include "runtime/executor.h"
#include "runtime/null_executor.h"
#include "runtime/testing/lane_program.h"
#include "runtime/testing/moved_weights.h"
#include "runtime/testing/queued_device.h"
#include "runtime/testing/toy_programs.h"

namespace snug {
namespace {

using testing_ops::Fixture;
using testing_ops::kVector;
using testing_ops::LaneProgram;
using testing_ops::QueuedDevice;

constexpr std::string_view kTmp = "/tmp";

std::vector<float> result_of(Executor& executor, const LaneProgram& f) {
  for (ValueId id : f.weights) {
    std::vector<float> w(static_cast<size_t>(kVector.shape.elements()));
    for (size_t i = 0; i < w.size(); ++i)
      w[i] = static_cast<float>(i) + 100 * static_cast<float>(id.index);
    executor.write(id, std::as_bytes(std::span(w)));
  }
  std::ranges::fill(executor.values<float>(f.x), 3.0F);
  executor.run("p");
  const std::span<float> y = executor.values<float>(f.y);
  return {y.begin(), y.end()};
}

std::vector<float> in_list_order(const LaneProgram& f) {
  const auto device = cpu_device();
  Executor executor(f.module, *device, {.offload_dir = kTmp});
  executor.observe = [](size_t, size_t) {};
  return result_of(executor, f);
}

TEST(Lanes, AnyAllowedOrderGivesSameBits) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    LaneProgram f(seed);
    f.placed();
    const std::vector<float> want = in_list_order(f);
    const auto device = cpu_device();
    Executor executor(f.module, *device, {.test = {.poison_dead = true, .order_seed = seed}});
    for (int run = 0; run < 10; ++run) ASSERT_EQ(result_of(executor, f), want) << "seed " << seed;
    for (uint64_t order = 0; order < 10; ++order) run_null(f.module, order);
  }
}

TEST(Lanes, ThreadsGiveTheSameBits) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    LaneProgram f(seed);
    f.placed();
    const std::vector<float> want = in_list_order(f);
    const auto device = cpu_device();
    Executor executor(f.module, *device);
    for (int run = 0; run < 20; ++run) ASSERT_EQ(result_of(executor, f), want) << "seed " << seed;
  }
}

// A program's first run, its recording and replays, each with a timing of its own.
TEST(Lanes, StreamsGiveTheSameBits) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    LaneProgram f(seed);
    f.placed();
    const std::vector<float> want = in_list_order(f);
    QueuedDevice device(seed);
    Executor executor(f.module, device);
    for (int run = 0; run < 10; ++run) ASSERT_EQ(result_of(executor, f), want) << "seed " << seed;
    EXPECT_GT(device.copies, 0) << "moved by the runtime";
    EXPECT_GT(device.calls, 0) << "computed on the host";
    for (const Space space : {Space::device, Space::host})
      EXPECT_EQ(executor.measured_bytes(space), executor.planned_bytes(space));
    EXPECT_THAT(device.host_asked, ::testing::ElementsAre(executor.planned_bytes(Space::host)));
  }
}

// On threads, in random orders with dead values overwritten, and where streams call it.
// Every op once, in the order of its lane and after what it waits for.
void expect_spans_follow_order(const Module& module, std::span<const Span> spans) {
  const Program& program = module.programs.front();
  const Order order(module, program);
  std::vector<const Span*> by_op(program.ops.size());
  std::map<std::string, double> lane_ends;
  for (const Span& span : spans) {
    EXPECT_LE(span.begin, span.end);
    EXPECT_GE(span.begin, lane_ends[span.lane]) << "overlaps within lane " << span.lane;
    lane_ends[span.lane] = span.end;
    for (int32_t op = span.op; op < span.op + span.ops; ++op) {
      EXPECT_EQ(by_op[static_cast<size_t>(op)], nullptr) << "op " << op << " twice";
      EXPECT_EQ(program.ops[static_cast<size_t>(op)].lane, span.lane);
      by_op[static_cast<size_t>(op)] = &span;
    }
  }
  for (size_t op = 0; op < by_op.size(); ++op) {
    ASSERT_NE(by_op[op], nullptr) << program.ops[op].name;
    for (const int32_t other : order.waits(static_cast<int32_t>(op)))
      EXPECT_GE(by_op[op]->begin, by_op[static_cast<size_t>(other)]->end) << program.ops[op].name;
  }
}

// Runs without, with and again without being measured.
void expect_measured_like_unmeasured(const LaneProgram& f, Device& device) {
  const std::vector<float> want = in_list_order(f);
  Executor executor(f.module, device);
  SpanLog log;
  for (int run = 0; run < 9; ++run) {
    if (run == 3) executor.measure_spans(&log);
    if (run == 6) executor.measure_spans(nullptr);
    ASSERT_EQ(result_of(executor, f), want) << "run " << run;
  }
  EXPECT_EQ(log.run, 3);
  std::ranges::stable_sort(log.spans, {}, &Span::run);
  for (int32_t run = 0; run < 3; ++run) {
    std::vector<Span> of_run;
    std::ranges::copy_if(log.spans, std::back_inserter(of_run),
                         [&](const Span& span) { return span.run == run; });
    expect_spans_follow_order(f.module, of_run);
  }
}

TEST(Lanes, MeasuredSpansFollowOrder) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    LaneProgram f(seed);
    f.placed();
    const auto threads = cpu_device();
    expect_measured_like_unmeasured(f, *threads);
    QueuedDevice streams(seed);
    expect_measured_like_unmeasured(f, streams);
  }
}

// As many events and as many launches as before: a run that is not measured pays nothing.
TEST(Lanes, StampsOnlyInMeasuredRuns) {
  LaneProgram f(5);
  f.placed();
  QueuedDevice device(1);
  Executor executor(f.module, device);
  const auto work = [&] {
    const int64_t before = device.done();
    result_of(executor, f);
    device.synchronise();
    return device.done() - before;
  };
  work();
  const int64_t plain = work();
  SpanLog log;
  executor.measure_spans(&log);
  EXPECT_GT(work(), plain);
  executor.measure_spans(nullptr);
  EXPECT_EQ(work(), plain);
}

TEST(Lanes, DiskGivesTheSameBits) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    LaneProgram f(seed, /*disk=*/true);
    f.placed();
    const std::vector<float> want = in_list_order(f);
    const auto cpu = cpu_device();
    QueuedDevice queued(seed);
    Executor threads(f.module, *cpu, {.offload_dir = kTmp});
    Executor random(f.module, *cpu,
                    {.test = {.poison_dead = true, .order_seed = seed}, .offload_dir = kTmp});
    Executor streams(f.module, queued, {.offload_dir = kTmp});
    for (Executor* executor : {&threads, &random, &streams}) {
      for (int run = 0; run < 6; ++run) ASSERT_EQ(result_of(*executor, f), want) << seed;
      EXPECT_EQ(executor->allocated_bytes(Space::disk), executor->planned_bytes(Space::disk));
      EXPECT_EQ(executor->measured_bytes(Space::disk), executor->planned_bytes(Space::disk));
      for (size_t op = 0; op < f.module.programs[0].ops.size(); ++op) executor->enqueue(0, op);
      EXPECT_THAT(executor->values<float>(f.y), ::testing::ElementsAreArray(want)) << "one by one";
    }
    EXPECT_FALSE(streams.host_addresses(f.weights.back()));
    EXPECT_THROW(streams.bytes(f.weights.back()), Error);
    for (uint64_t order = 0; order < 5; ++order) run_null(f.module, order);
  }
}

TEST(Lanes, MissingWaitsAreFound) {
  int found = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    LaneProgram f(seed);
    f.placed();
    const std::vector<float> want = in_list_order(f);
    QueuedDevice device(seed);
    device.forgets_to_wait = true;
    Executor executor(f.module, device);
    bool differs = false;
    for (int run = 0; run < 10; ++run) differs = differs || result_of(executor, f) != want;
    found += differs ? 1 : 0;
  }
  EXPECT_GE(found, 18) << "of 20 programs";
}

// What the tests on a GPU run (tests/gpu_train/lanes_test.cpp), with the ops that models use.
TEST(Lanes, WeightsMovedBetweenRunsKeepBits) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    std::vector<std::vector<float>> results;
    for (const bool one_lane : {true, false}) {
      const testing_ops::MovedWeights f(seed, {.one_lane = one_lane, .disk = seed % 2 == 1});
      const auto device = cpu_device();
      Executor executor(f.module, *device, {.offload_dir = kTmp});
      f.fill(executor);
      for (int run = 0; run < 6; ++run) f.run(executor, run);
      results.push_back(f.result(executor));
      for (const Space space : {Space::device, Space::host, Space::disk}) {
        EXPECT_EQ(executor.allocated_bytes(space), executor.planned_bytes(space));
        EXPECT_EQ(executor.measured_bytes(space), executor.planned_bytes(space));
      }
      for (uint64_t order = 0; order < 5; ++order) run_null(f.module, order);
    }
    EXPECT_EQ(results[0], results[1]) << "seed " << seed;
    EXPECT_GT(std::set<float>(results[0].begin(), results[0].end()).size(), 63U);
  }
}

// All that is enqueued in addition to the ops.
TEST(Lanes, OneLaneNeedsNoEvents) {
  LaneProgram f(1);
  for (Op& op : f.module.programs[0].ops) op.lane = "compute";
  f.placed();
  const std::vector<float> want = in_list_order(f);
  QueuedDevice device(1);
  Executor executor(f.module, device, {.test = {.delay_seed = 1}});
  const int loaded = device.delays;
  for (int run = 0; run < 4; ++run) EXPECT_EQ(result_of(executor, f), want);
  EXPECT_EQ(device.events, 0);
  EXPECT_EQ(device.delays, loaded) << "nothing to hold up";
}

TEST(Lanes, PoisonAndObserversWorkOnStreams) {
  LaneProgram f(2);
  f.placed();
  const std::vector<float> want = in_list_order(f);
  QueuedDevice device(2);
  Executor poisoned(f.module, device, {.test = {.poison_dead = true}});
  for (int run = 0; run < 4; ++run) EXPECT_EQ(result_of(poisoned, f), want);
  EXPECT_EQ(device.events, 0) << "in list order on one lane";
  Executor observed(f.module, device);
  size_t seen = 0;
  observed.observe = [&](size_t, size_t) { ++seen; };
  for (int run = 0; run < 3; ++run) EXPECT_EQ(result_of(observed, f), want);
  EXPECT_EQ(seen, 3 * f.module.program("p").ops.size());
  observed.observe = nullptr;
  for (int run = 0; run < 3; ++run) EXPECT_EQ(result_of(observed, f), want) << "lanes again";
}

TEST(Lanes, AreDelayedAtRandomOnRequest) {
  LaneProgram f(4);
  f.placed();
  const std::vector<float> want = in_list_order(f);
  QueuedDevice device(4);
  Executor executor(f.module, device, {.test = {.delay_seed = 7}});
  EXPECT_EQ(result_of(executor, f), want);
  const auto ops = static_cast<int>(f.module.program("p").ops.size());
  EXPECT_GT(device.delays, ops / 4);
  EXPECT_LT(device.delays, ops);
}

// One op alone, to measure it: lane 0 waits for it.
TEST(Lanes, SingleOpFollowsComputeLane) {
  LaneProgram f(6);
  f.placed();
  const std::vector<float> want = in_list_order(f);
  for (uint64_t seed = 0; seed < 10; ++seed) {
    QueuedDevice device(seed);
    Executor executor(f.module, device);
    result_of(executor, f);
    std::ranges::fill(executor.values<float>(f.y), 0.0F);
    for (size_t op = 0; op < f.module.program("p").ops.size(); ++op) executor.enqueue(0, op);
    const std::span<float> y = executor.values<float>(f.y);
    EXPECT_EQ(std::vector<float>(y.begin(), y.end()), want);
  }
}

// What a lane's call throws cannot go through the device: the next run or read throws it.
TEST(Lanes, HostFailureIsThrownLater) {
  Fixture f;
  const ValueId h = ops::copy(f.b, "out", f.x, Space::host);
  const ValueId broken = f.b.emit(testing_ops::fails, "broken", {h})[0];
  f.module[broken].space = Space::host;
  f.finish(ops::copy(f.b, "in", broken));
  f.placed();
  QueuedDevice device(1);
  Executor executor(f.module, device);
  executor.run("p");
  EXPECT_EQ(device.calls, 1);
  EXPECT_THROW(executor.values<float>(f.y), std::runtime_error);
  EXPECT_THROW(executor.run("p"), std::runtime_error);
}

// What is still enqueued uses its arenas, and calls what it holds.
TEST(Lanes, AreWaitedForByExecutorDestructor) {
  LaneProgram f(3);
  f.placed();
  QueuedDevice device(3);
  {
    Executor executor(f.module, device);
    executor.run("p");
    EXPECT_FALSE(device.idle());
  }
  EXPECT_TRUE(device.idle());
}

TEST(Lanes, ArenaOfEachSpaceMatchesPlan) {
  LaneProgram f(1);
  f.placed();
  const auto device = cpu_device();
  Executor executor(f.module, *device);
  result_of(executor, f);
  for (const Space space : {Space::device, Space::host}) {
    EXPECT_GT(executor.planned_bytes(space), 0);
    EXPECT_EQ(executor.allocated_bytes(space), executor.planned_bytes(space));
    EXPECT_EQ(executor.measured_bytes(space), executor.planned_bytes(space));
  }
  EXPECT_EQ(executor.allocated_bytes(Space::disk), 0);
}

// Placed as if all ops ran one after another, programs whose lanes run side by side must be found.
TEST(Lanes, PlacementIgnoringLanesIsFound) {
  int found = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    LaneProgram f(seed);
    auto& ops = f.module.programs[0].ops;
    std::vector<std::string> lanes;
    for (Op& op : ops) lanes.push_back(std::exchange(op.lane, "compute"));
    f.placed();
    for (size_t i = 0; i < ops.size(); ++i) ops[i].lane = lanes[i];
    const auto is_found = [&](uint64_t order) {
      try {
        run_null(f.module, order);
      } catch (const Error&) {
        return true;
      }
      return false;
    };
    for (uint64_t order = 0; order < 20; ++order) {
      if (!is_found(order)) continue;
      ++found;
      break;
    }
  }
  EXPECT_GE(found, 18) << "of 20 programs";
}

TEST(Lanes, ExtensionKeepsEveryOpAndOrder) {
  LaneProgram f(3);
  f.placed();
  const Order order(f.module, f.module.program("p"));
  std::set<std::vector<int32_t>> different;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<int32_t> extension = random_extension(order, seed);
    ASSERT_EQ(extension.size(), f.module.program("p").ops.size());
    for (size_t a = 0; a < extension.size(); ++a)
      for (size_t b = 0; b < a; ++b) ASSERT_FALSE(order.before(extension[a], extension[b]));
    different.insert(extension);
  }
  EXPECT_GT(different.size(), 15U);
}

}  // namespace
}  // namespace snug

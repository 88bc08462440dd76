// Lanes on a GPU are streams that wait for each other exactly where Order says, also inside a
// recorded graph. Whatever their timing, the results have the bits of one lane; and host memory is
// planned, allocated and measured like the device's.
#include <gmock/gmock.h>

#include <cstring>

#include "base/text.h"
#include "base/units.h"
#include "gpu_train/gpu_run.h"
#include "hal/cpu/cpu_device.h"
#include "hal/cuda/stream_times.h"
#include "ir/text.h"
#include "ops/registry.h"
#include "runtime/initialise.h"
#include "runtime/testing/host_values.h"
#include "runtime/testing/moved_weights.h"

namespace snug {
namespace {

using testing_ops::MovedWeights;
using GpuLanes = OnGpu;

constexpr int kLaneRuns = 6;  // a first run, a recording and replays
constexpr uint64_t kDelaySeeds = 20;
constexpr int64_t kMovedElements = int64_t{1} << 16;  // 256 KiB, which a link takes some 5 us for

ExecutorOptions delayed(uint64_t seed) {
  return {.test = {.delay_seed = seed}, .math = {.deterministic = true}, .offload_dir = "/tmp"};
}

MovedWeights moved_weights(unsigned seed, bool one_lane, Backend backend = Backend::cuda,
                           bool disk = false) {
  return MovedWeights(
      seed, {.backend = backend, .elements = kMovedElements, .one_lane = one_lane, .disk = disk});
}

using Results = std::vector<std::vector<float>>;

// What each run leaves, or only what the last one does: then the host waits for nothing in between.
Results results(const MovedWeights& f, Executor& executor, bool each) {
  Results out;
  f.fill(executor);
  for (int run = 0; run < kLaneRuns; ++run) {
    f.run(executor, run);
    if (each || run == kLaneRuns - 1) out.push_back(f.result(executor));
  }
  return out;
}

void expect_plan_is_run(const Executor& executor) {
  for (const Space space : {Space::device, Space::host}) {
    EXPECT_GT(executor.planned_bytes(space), 0);
    EXPECT_EQ(executor.allocated_bytes(space), executor.planned_bytes(space));
    EXPECT_EQ(executor.measured_bytes(space), executor.planned_bytes(space));
  }
}

TEST_F(GpuLanes, HaveBitsOfOneLaneForAnyTiming) {
  for (unsigned program = 0; program < 6; ++program) {
    const bool disk = program % 2 == 1;
    const MovedWeights alone = moved_weights(program, /*one_lane=*/true, Backend::cuda, disk);
    const MovedWeights f = moved_weights(program, /*one_lane=*/false, Backend::cuda, disk);
    Executor one(alone.module, gpu(), {.offload_dir = "/tmp"});
    const auto want = results(alone, one, /*each=*/true);
    for (uint64_t seed = 0; seed < kDelaySeeds; ++seed) {
      SCOPED_TRACE(fmt::format("program {}, delays {}", program, seed));
      Executor executor(f.module, gpu(), delayed(seed));
      const bool each = seed % 2 == 0;
      const auto got = results(f, executor, each);
      ASSERT_EQ(got, each ? want : Results{want.back()});
      if (seed == 0) expect_plan_is_run(executor);
    }
  }
}

TEST_F(GpuLanes, HaveTheBitsOfTheCpu) {
  const MovedWeights on_cpu = moved_weights(5, /*one_lane=*/false, Backend::cpu);
  const auto cpu = cpu_device();
  Executor there(on_cpu.module, *cpu);
  const auto want = results(on_cpu, there, /*each=*/true);
  const MovedWeights f = moved_weights(5, /*one_lane=*/false);
  Executor executor(f.module, gpu());
  EXPECT_EQ(results(f, executor, /*each=*/true), want);
  Executor poisoned(f.module, gpu(), {.test = {.poison_dead = true}});
  EXPECT_EQ(results(f, poisoned, /*each=*/true), want);
  Executor observed(f.module, gpu());
  size_t seen = 0;
  observed.observe = [&](size_t, size_t) { ++seen; };
  EXPECT_EQ(results(f, observed, /*each=*/true), want);
  EXPECT_EQ(seen, kLaneRuns * f.module.program("p").ops.size());
}

// AdamW whose state is on the host, chunk by chunk, two buffers for all of it.
TEST_F(GpuLanes, StagedUpdateHasBitsOfOneLane) {
  Module module = parse(read_file(tests_dir() + "/golden/staged_update.snug"), ops::registry());
  const auto update = [](const Module& m, const ExecutorOptions& options) {
    Executor executor(m, gpu(), options);
    initialise(executor, /*seed=*/5);
    std::vector<float> grad(4096);
    executor.write_scalar(executor.shared("lr"), 0.01F);
    executor.write_scalar(executor.shared("clip.scale"), 1.0F);
    executor.write_scalar(executor.shared("clip.finite"), int32_t{1});
    for (int run = 0; run < kLaneRuns; ++run) {
      for (size_t i = 0; i < grad.size(); ++i)
        grad[i] = static_cast<float>((i * 37 + static_cast<size_t>(run) * 11) % 101) - 50;
      executor.write(executor.shared("grad.w"), std::as_bytes(std::span(grad)));
      executor.write_scalar(executor.shared("updates"), int64_t{run + 1});
      executor.run("update");
    }
    expect_plan_is_run(executor);
    Results out;
    for (const char* name : {"w", "w.m", "w.v"}) {
      out.emplace_back(grad.size());
      executor.read(executor.shared(name), std::as_writable_bytes(std::span(out.back())));
    }
    return out;
  };
  Module alone = module;
  for (Op& op : alone.program("update").ops) op.lane = "compute";
  const auto want = update(alone, kDeterministic);
  EXPECT_THAT(want[2], ::testing::Contains(::testing::Gt(1.0F))) << "the state was written back";
  EXPECT_EQ(update(module, kDeterministic), want);
  for (uint64_t seed = 0; seed < kDelaySeeds; ++seed)
    ASSERT_EQ(update(module, delayed(seed)), want) << "delays " << seed;
}

TEST_F(GpuLanes, RunSideBySideInsideARecording) {
  constexpr double kMs = 3;
  const auto forked = gpu().make_event(), ended = gpu().make_event();
  const auto both = [&] {
    forked->record(0);
    forked->wait(1);
    for (const int32_t lane : {0, 1}) gpu().delay(lane, kMs * 1e3);
    ended->record(1);
    ended->wait(0);
  };
  both();  // loads what is loaded lazily
  gpu().synchronise();
  const auto recording = gpu().record(both);
  const auto ms = stream_times_ms(gpu(), 5, [&](size_t) { recording->launch(); });
  EXPECT_GT(ms.back(), 0.9 * kMs) << "the stream waits for both";
  EXPECT_LT(ms.back(), 1.5 * kMs) << "at the same time";
}

TEST_F(GpuLanes, HostMemoryFollowsDeviceOrder) {
  const MovedWeights f = moved_weights(1, /*one_lane=*/false);
  Executor executor(f.module, gpu(), delayed(1));
  const ValueId w = f.weights[0];
  const auto n = static_cast<size_t>(kMovedElements);
  f.fill(executor);
  for (int run = 0; run < 3; ++run) f.run(executor, run);
  const std::unique_ptr<Reading> later = executor.read_later(std::array{w, f.y});
  std::vector<float> now(n), then(n);
  executor.read(w, std::as_writable_bytes(std::span(now)));  // while the runs are under way
  ASSERT_EQ(later->piece(0).size(), n * sizeof(float));
  std::memcpy(then.data(), later->piece(0).data(), n * sizeof(float));
  EXPECT_EQ(now, then);
  EXPECT_TRUE(std::ranges::equal(now, executor.values<float>(w)));

  f.run(executor, 3);
  executor.zero(w);  // after the run, not under it
  EXPECT_THAT(executor.values<float>(w), ::testing::Each(0.0F));
  {
    HostValues host(executor);
    std::ranges::fill(host.make<float>(w), 2.0F);
    std::ranges::fill(host.make<float>(f.x), 3.0F);
  }
  executor.read(w, std::as_writable_bytes(std::span(now)));
  EXPECT_THAT(now, ::testing::Each(2.0F));
  executor.read(f.x, std::as_writable_bytes(std::span(now)));
  EXPECT_THAT(now, ::testing::Each(3.0F));
  EXPECT_TRUE(executor.host_addresses(w));
  EXPECT_FALSE(executor.host_addresses(f.x));
  EXPECT_THROW(static_cast<void>(executor.bytes(f.x)), Error);
}

TEST_F(GpuLanes, UnpinnableBytesAreRefusedWithNumbers) {
  const int64_t bytes = 2 * total_memory_bytes();
  try {
    gpu().allocate_host(bytes);
    FAIL() << "allocated";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::does_not_fit);
    EXPECT_THAT(error.what(), ::testing::HasSubstr(format_exact(bytes)));
    EXPECT_THAT(error.hint(), ::testing::HasSubstr("--host-budget"));
  }
  const auto memory = gpu().allocate_host((int64_t{130} << 20) + 77);
  EXPECT_EQ(memory->high_water_mark(), 0) << "and the device still works";
  memory->data()[5] = std::byte{1};
  EXPECT_EQ(memory->high_water_mark(), 6);
}

// Where the lane calls it: in a first run, a recording and replays, each with weights of its own.
TEST_F(GpuLanes, ComputesOnTheHost) {
  Module module{.name = "host op"};
  const Type vector{Dtype::f32, {64}};
  const ValueId w = add_shared(module, "w", vector, Category::buffers, Scope::persistent);
  module[w].space = Space::host;
  Builder b(module, "p");
  const ValueId twice = ops::add(b, "twice", w, w);
  module[twice].space = Space::host;
  const ValueId y = add_shared(module, "y", vector, Category::buffers, Scope::step);
  b.emit_into(ops::copy_def, "end", {twice}, y);
  module.step = {{1, {"p"}}};
  schedule(module, Backend::cuda);
  place(module);
  Executor executor(module, gpu());
  for (int run = 0; run < kLaneRuns; ++run) {
    std::vector<float> in(64), out(64);
    for (size_t i = 0; i < in.size(); ++i)
      in[i] = static_cast<float>(100 * run) + static_cast<float>(i);
    executor.write(w, std::as_bytes(std::span(in)));
    executor.run("p");
    executor.read(y, std::as_writable_bytes(std::span(out)));
    for (float& x : in) x += x;
    EXPECT_EQ(out, in) << "run " << run;
  }
}

}  // namespace
}  // namespace snug

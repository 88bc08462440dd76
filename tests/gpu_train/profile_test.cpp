// Spans of a graph-replayed run on a GPU: losses keep their bits, lanes do not overlap, and the
// compute lane's spans are the step.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "gpu_train/gpu_run.h"
#include "ir/lifetime.h"
#include "settings/parse.h"

namespace snug {
namespace {

using GpuProfile = OnGpu;

std::vector<float> some_losses(SmallRun& run, SpanLog* log) {
  std::vector<float> losses = run.losses(4);  // a first run, a recording and replays
  if (log != nullptr) run.executor().measure_spans(log);
  for (int32_t step = 0; step < 4; ++step) {
    if (log != nullptr) {
      log->step = step;
      log->run = 0;
    }
    losses.push_back(run.step());
  }
  if (log != nullptr) run.executor().measure_spans(nullptr);
  for (const float loss : run.losses(2)) losses.push_back(loss);
  return losses;
}

void expect_same_losses_and_lanes_apart(const Recipe& recipe) {
  const BuildOptions build = as_on_gpu(BuildOptions{.batch = 2, .seq = 64});
  SmallRun plain = gpu_run("snug-tiny", build, as_on_gpu(recipe));
  SmallRun profiled = gpu_run("snug-tiny", build, as_on_gpu(recipe));
  SpanLog log;
  EXPECT_EQ(some_losses(profiled, &log), some_losses(plain, nullptr));

  const Module& module = profiled.module();
  size_t ops = 0;
  for (const Program& program : module.programs)
    ops += program.ops.size() * static_cast<size_t>(runs_per_step(module, program.name));
  size_t seen = 0;
  std::map<std::string, double> ends;
  for (const Span& span : log.spans) {
    seen += static_cast<size_t>(span.ops);
    EXPECT_LE(span.begin, span.end);
    EXPECT_GE(span.begin, ends[span.lane]) << span.lane;
    ends[span.lane] = span.end;
  }
  EXPECT_EQ(seen, 4 * ops) << "every op of every step";
}

TEST_F(GpuProfile, ChangesNoBitAndLaneSpansAreDisjoint) {
  expect_same_losses_and_lanes_apart({.accum = 3});
}

TEST_F(GpuProfile, HasEveryTransferLane) {
  Recipe recipe;
  recipe.offload = parse_setting<Offload>("all", "offload");
  expect_same_losses_and_lanes_apart(recipe);
}

// From the first op of a program to its last, the compute lane is in some op.
TEST_F(GpuProfile, ComputeSpansCoverProgramInMemory) {
  const BuildOptions build = as_on_gpu(BuildOptions{.batch = 8, .seq = 256});
  SmallRun run = gpu_run("snug-tiny", build, as_on_gpu(Recipe{}));
  SpanLog log;
  some_losses(run, &log);
  double busy = 0;
  std::map<std::pair<int32_t, int32_t>, std::pair<double, double>> runs;
  for (const Span& span : log.spans) {
    if (span.lane == kComputeLane) busy += span.seconds();
    auto& [begin, end] =
        runs.try_emplace({span.step, span.run}, span.begin, span.end).first->second;
    begin = std::min(begin, span.begin);
    end = std::max(end, span.end);
  }
  double all = 0;
  for (const auto& [key, run_of] : runs) all += run_of.second - run_of.first;
  EXPECT_GE(busy, 0.97 * all);
}

}  // namespace
}  // namespace snug

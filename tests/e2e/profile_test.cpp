// Measured spans and the memory timeline of random recipes: a profile changes no bit, spans of a lane
// never overlap, and the timeline's peak is the plan's and the run's.
#include <gtest/gtest.h>
#include <omp.h>

#include <map>

#include "profile/memory_timeline.h"
#include "support/random_offload.h"
#include "support/random_recipe.h"
#include "support/small_run.h"

namespace snug {
namespace {

constexpr int kProfiledRecipes = 20;

void expect_apart_on_lanes(const std::vector<Span>& spans) {
  std::map<std::string, double> ends;
  std::vector<Span> sorted = spans;
  std::ranges::stable_sort(sorted, {}, [](const Span& s) { return std::pair(s.step, s.run); });
  for (const Span& span : sorted) {
    EXPECT_LE(span.begin, span.end);
    EXPECT_GE(span.begin, ends[span.lane]) << "lane " << span.lane;
    ends[span.lane] = span.end;
  }
}

void expect_profiled_like_unprofiled(const DrawnRecipe& drawn) {
  const ExecutorOptions options{.offload_dir = "/tmp"};
  SmallRun plain(drawn.model, drawn.build, drawn.recipe, options);
  SmallRun profiled(drawn.model, drawn.build, drawn.recipe, options);
  const std::vector<float> want = plain.losses(4);
  SpanLog log;
  std::vector<float> losses = profiled.losses(1);
  profiled.executor().measure_spans(&log);
  for (int32_t step = 0; step < 2; ++step) {
    log.step = step;
    log.run = 0;
    losses.push_back(profiled.step());
  }
  profiled.executor().measure_spans(nullptr);
  losses.push_back(profiled.step());
  EXPECT_EQ(losses, want);

  const Module& module = profiled.module();
  size_t ops = 0;
  for (const Program& program : module.programs)
    ops += program.ops.size() * static_cast<size_t>(runs_per_step(module, program.name));
  EXPECT_EQ(log.spans.size(), 2 * ops) << "every op of both steps";
  expect_apart_on_lanes(log.spans);

  profiled.evaluate();  // its program has a place in the arena, too
  for (const Space space : {Space::device, Space::host}) {
    const MemoryTimeline timeline = memory_timeline(module, space);
    EXPECT_EQ(timeline.max_live, profiled.plan().memory[space].placement.max_live_bytes);
    EXPECT_EQ(timeline.max_reach, profiled.executor().planned_bytes(space));
    EXPECT_EQ(timeline.max_reach, profiled.executor().measured_bytes(space));
  }
}

TEST(ProfiledRuns, RandomRecipesKeepBitsAndPlannedPeak) {
  omp_set_num_threads(1);
  for (int seed = 0; seed < kProfiledRecipes; ++seed) {
    DrawnRecipe drawn = draw_recipe(seed);
    if (seed % 2 == 1) {  // every other one with lanes that move bytes
      DrawnOffload moved = draw_offload(seed);
      drawn = moved;
      drawn.recipe.offload = moved.offload;
    }
    SCOPED_TRACE(drawn.text);
    expect_profiled_like_unprofiled(drawn);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace snug

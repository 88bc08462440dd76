// A profile's sums, its trace, its lines and its snapshot, all of predicted spans: deterministic.
#include "profile/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cost/step_cost.h"
#include "ir/lifetime.h"
#include "models/model.h"
#include "placement/placement.h"
#include "placement/plan.h"
#include "profile/findings.h"
#include "profile/memory_lines.h"
#include "profile/memory_snapshot.h"
#include "profile/memory_timeline.h"
#include "profile/span_files.h"
#include "profile/trace_json.h"
#include "settings/parse.h"
#include "settings/recipe.h"

namespace snug {
namespace {

Plan small_plan(const Recipe& recipe = {.accum = 3}) {
  return make_plan("tiny", Model::load("snug-tiny").forward({.batch = 1, .seq = 32}), recipe);
}

// Weights and state in host memory, moved by lanes of their own.
Recipe offloaded() {
  Recipe recipe;
  recipe.offload = parse_setting<Offload>("all", "offload");
  return recipe;
}

Profile predicted(const Plan& plan) {
  const CostModel model = nominal_model(Backend::cpu);
  return {.module = &plan.module,
          .predicted = predicted_spans(plan.module, model),
          .predicted_step = step_cost(plan.module, model).step_seconds,
          .planned_bytes = plan.module.arena_bytes[0]};
}

std::string collected(const std::function<void(const std::function<void(std::string_view)>&)>& of) {
  std::string out;
  of([&](std::string_view text) { out += text; });
  return out;
}

TEST(Profile, LanesKindsPhasesAndLayersSumToStep) {
  const Plan plan = small_plan();
  Profile profile = predicted(plan);
  profile.measured = profile.predicted;  // two steps, as predicted
  for (const Span& span : profile.predicted) {
    profile.measured.push_back(span);
    profile.measured.back().step = 1;
  }
  for (Span& span : profile.measured) span.origin = SpanOrigin::measured;
  profile.steps = 2;
  const ProfileSums sums = sums_of(profile);
  double kinds = 0, phases = 0, layers = 0;
  for (const KindTime& kind : sums.kinds) {
    EXPECT_NEAR(kind.time.measured, kind.time.predicted, 1e-12);
    kinds += kind.time.measured;
  }
  for (const Seconds& phase : sums.phases) phases += phase.measured;
  for (const LayerTime& layer : sums.layers)
    for (const Seconds& phase : layer.phases) layers += phase.measured;
  ASSERT_EQ(sums.lanes.size(), 1U);
  EXPECT_NEAR(sums.lanes[0].busy.measured, profile.predicted_step, 1e-9);
  for (const double sum : {kinds, phases, layers}) EXPECT_NEAR(sum, profile.predicted_step, 1e-9);
  for (size_t i = 1; i < sums.kinds.size(); ++i)
    EXPECT_GE(sums.kinds[i - 1].time.measured, sums.kinds[i].time.measured);
}

TEST(Profile, NamesAreEscapedInEveryFile) {
  Plan plan = small_plan();
  plan.module.program("micro_first").ops[0].name = "a\"b,\n\x01";
  const Profile profile = predicted(plan);
  const auto trace = nlohmann::json::parse(
      collected([&](const auto& write) { write_trace_json(profile, write); }));
  EXPECT_FALSE(trace.empty());
  const std::string csv = collected([&](const auto& write) { write_spans_csv(profile, write); });
  EXPECT_THAT(csv, ::testing::HasSubstr("micro_first,\"a\"\"b,\n"));
}

TEST(Profile, SpansAreALineEach) {
  const Plan plan = small_plan();
  const Profile profile = predicted(plan);
  const std::string lines =
      collected([&](const auto& write) { write_spans_jsonl(profile, write); });
  EXPECT_EQ(std::ranges::count(lines, '\n'), std::ssize(profile.predicted));
  const auto first = nlohmann::json::parse(lines.substr(0, lines.find('\n')));
  EXPECT_EQ(first["origin"], "predicted");
  EXPECT_EQ(first["program"], "micro_first");
  EXPECT_EQ(first["lane"], "compute");
  const std::string csv = collected([&](const auto& write) { write_spans_csv(profile, write); });
  EXPECT_EQ(std::ranges::count(csv, '\n'), std::ssize(profile.predicted) + 1);
}

TEST(Profile, ExchangeNamesItsRanks) {
  Recipe recipe{.accum = 3};
  recipe.sharding = {.ranks = 4, .level = 1, .threshold = 0};
  const Plan plan = small_plan(recipe);
  const Profile profile = predicted(plan);
  const std::string lines =
      collected([&](const auto& write) { write_spans_jsonl(profile, write); });
  int exchanges = 0;
  for (const std::string& text : split(trim(lines), '\n')) {
    const auto line = nlohmann::json::parse(text);
    EXPECT_EQ(line.contains("axis"), line["lane"].get<std::string>().starts_with("comm."));
    if (!line.contains("axis")) continue;
    ++exchanges;
    EXPECT_EQ(line["axis"], "dp");
    EXPECT_EQ(line["ranks"], 4);
    EXPECT_EQ(line["stride"], 1);
  }
  EXPECT_GT(exchanges, 3);
}

TEST(Profile, MemoryIsALineForEachChange) {
  const Plan plan = small_plan(offloaded());
  const Profile profile = predicted(plan);
  const std::string lines =
      collected([&](const auto& write) { write_memory_jsonl(profile, write); });
  std::map<std::string, int64_t> peaks;
  std::map<std::string, nlohmann::json> last;
  for (const std::string& text : split(trim(lines), '\n')) {
    const auto line = nlohmann::json::parse(text);
    EXPECT_EQ(line["origin"], "predicted");
    const std::string space = line["space"];
    EXPECT_NE(line["live"], last[space]);
    last[space] = line["live"];
    int64_t live = 0;
    for (const auto& bytes : line["live"]) live += bytes.get<int64_t>();
    peaks[space] = std::max(peaks[space], live);
  }
  EXPECT_EQ(peaks["device"], memory_timeline(plan.module, Space::device).max_live);
  EXPECT_EQ(peaks["host"], memory_timeline(plan.module, Space::host).max_live);
}

TEST(Profile, PeakOfTimelineEqualsPlan) {
  for (const Recipe& recipe : {Recipe{.accum = 3}, offloaded()}) {
    const Plan plan = small_plan(recipe);
    for (const Space space : {Space::device, Space::host}) {
      const MemoryTimeline timeline = memory_timeline(plan.module, space);
      EXPECT_EQ(timeline.max_reach, plan.module.arena_bytes[static_cast<size_t>(space)]);
      EXPECT_EQ(timeline.max_live, plan.memory[space].placement.max_live_bytes);
    }
  }
}

TEST(Profile, SnapshotsAreBeforeAndAfterEachPhase) {
  const Plan plan = small_plan();
  const auto snapshots = phase_snapshots(plan.module, memory_timeline(plan.module, Space::device));
  std::vector<std::string> labels;
  for (const MemorySnapshot& snapshot : snapshots) labels.push_back(snapshot.label);
  EXPECT_THAT(labels, ::testing::ElementsAre("before forward", "after forward", "before backward",
                                             "after backward", "before update", "after update"));
  const auto activations = static_cast<size_t>(Category::activations);
  EXPECT_GT(snapshots[1].live[activations], snapshots[0].live[activations]);
  EXPECT_GT(snapshots[2].live[activations], snapshots[3].live[activations]);
}

// Allocations and frees of the snapshot replayed: the plan's most bytes at once, and nothing of a
// step left over. tools/check_profile.py does the same with PyTorch's own reader.
TEST(Profile, SnapshotIsPickle) {
  const Plan plan = small_plan();
  const Profile profile = predicted(plan);
  const std::string bytes = memory_snapshot_pickle(plan.module, profile.predicted);
  EXPECT_EQ(bytes.substr(0, 2), "\x80\x02");
  EXPECT_EQ(bytes.back(), '.');
  for (const char* word : {"segments", "device_traces", "active_allocated", "segment_alloc",
                           "free_completed", "activations", "unknown"})
    EXPECT_THAT(bytes, ::testing::HasSubstr(word));
}

TEST(Findings, OneLaneKeepsNothingPastItsUse) {
  const Plan plan = small_plan();
  const MemoryFindings found = memory_findings(plan.module, Space::device);
  EXPECT_EQ(found.held_bytes, 0);
  EXPECT_EQ(found.gaps(), plan.memory.device().gaps);
}

TEST(Findings, ValueKeptTooLongIsNamed) {
  Plan plan = small_plan();
  Module& module = plan.module;
  const Peak& peak = plan.memory.device().peak;
  const int32_t program = module.program_index(peak.program);
  // One that died before the peak is kept to the end.
  const auto value = std::ranges::find_if(module.values, [&](const Value& v) {
    return v.program == program && v.live && v.live->last < peak.op_index - 1 &&
           v.space == Space::device && v.storage_bytes() > 0;
  });
  ASSERT_NE(value, module.values.end());
  value->live->last =
      static_cast<int32_t>(module.programs[static_cast<size_t>(program)].ops.size()) - 1;
  const MemoryFindings found = memory_findings(module, Space::device);
  ASSERT_EQ(found.held.size(), 1U);
  EXPECT_EQ(found.held[0].name, value->name);
  EXPECT_EQ(found.held_bytes, value->storage_bytes());
  EXPECT_LT(found.held[0].needed.last, found.held[0].kept.last);
}

TEST(Findings, ContinuedGrowthIsLeak) {
  std::vector<int64_t> flat(50, 1 << 28), leak, jump;
  for (int64_t i = 0; i < 50; ++i) {
    leak.push_back((1 << 28) + i * (1 << 20));
    jump.push_back((1 << 28) + (i < 30 ? 0 : 64 << 20));
    flat[static_cast<size_t>(i)] += i % 3 * 4096;
  }
  EXPECT_FALSE(growth_of(flat).leaks);
  EXPECT_FALSE(growth_of(jump).leaks) << "a buffer that was made late";
  const Growth found = growth_of(leak);
  EXPECT_TRUE(found.leaks);
  EXPECT_NEAR(found.bytes_per_step, 1 << 20, 1);
  EXPECT_EQ(found.steps, 46);
  EXPECT_EQ(growth_of({}).steps, 0);
  EXPECT_EQ(growth_of(std::vector<int64_t>{5}).steps, 0);
}

}  // namespace
}  // namespace snug

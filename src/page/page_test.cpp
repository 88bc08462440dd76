// The document of a page: its bytes are the plan's, its texts are unchanged, and it is bounded.
#include "page/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "base/text.h"
#include "cost/step_cost.h"
#include "formats/testing.h"
#include "models/model.h"
#include "page/lane_spans.h"
#include "page/plan_subject.h"
#include "page/snapshot_subject.h"
#include "page/space_map.h"
#include "placement/plan.h"
#include "profile/memory_snapshot.h"
#include "pytorch/testing.h"
#include "settings/parse.h"

namespace snug {
namespace {

Plan plan_for_page(const Recipe& recipe) {
  return make_plan("tiny", Model::load("snug-tiny").forward({.batch = 2, .seq = 32}), recipe);
}

Json subject_for(const Plan& plan,
                 const PlanFacts& facts = {.model = "tiny", .batch = 2, .seq = 32}) {
  return plan_subject({plan.module, plan.memory, facts,
                       predicted_spans(plan.module, nominal_model(Backend::cpu)),
                       "snug plan tiny"});
}

// [0, 5, 2, 7] over 4 instants: 5 5 7 7
std::vector<int64_t> course_of(const Json& changes, int64_t size) {
  std::vector<int64_t> out;
  for (size_t i = 0; i < changes.size(); i += 2) {
    const int64_t until = i + 2 < changes.size() ? changes[i + 2].get<int64_t>() : size;
    out.resize(static_cast<size_t>(until), changes[i + 1].get<int64_t>());
  }
  return out;
}

std::vector<int64_t> totals_of(const Json& subject, const Json& space) {
  const int64_t size = subject["axes"][space["axis"].get<size_t>()]["size"];
  std::vector<int64_t> totals(static_cast<size_t>(size));
  for (const Json& changes : space["live"]) {
    const std::vector<int64_t> course = course_of(changes, size);
    for (size_t i = 0; i < course.size(); ++i) totals[i] += course[i];
  }
  return totals;
}

std::vector<Recipe> recipes_for_page() {
  std::vector<Recipe> out{{}, {.accum = 3}};
  out.emplace_back().offload = parse_setting<Offload>("all", "offload");
  return out;
}

TEST(PlanSubject, PeakEqualsPlanInEverySpace) {
  for (const Recipe& recipe : recipes_for_page()) {
    const Plan plan = plan_for_page(recipe);
    const Json subject = subject_for(plan);
    ASSERT_FALSE(subject["spaces"].empty());
    for (const Json& space : subject["spaces"]) {
      const SpaceBreakdown& memory = plan.memory[*parse_space(space["name"].get<std::string>())];
      const std::vector<int64_t> totals = totals_of(subject, space);
      const auto peak = space["peak"].get<size_t>();
      EXPECT_EQ(*std::ranges::max_element(totals), memory.placement.max_live_bytes);
      EXPECT_EQ(totals[peak], memory.placement.max_live_bytes);
      EXPECT_EQ(space["arena"], memory.placement.arena_bytes);
      EXPECT_EQ(space["gaps"].get<int64_t>() + totals[peak], memory.placement.arena_bytes);
    }
  }
}

// What the timeline adds up is what the map draws, at every instant.
TEST(PlanSubject, RectanglesCoverTimelineInsideArena) {
  for (const Recipe& recipe : recipes_for_page()) {
    const Json subject = subject_for(plan_for_page(recipe));
    for (const Json& space : subject["spaces"]) {
      std::vector<int64_t> totals = totals_of(subject, space);
      const Json& values = space["values"];
      for (size_t i = 0; i < values["bytes"].size(); ++i) {
        EXPECT_LE(values["offset"][i].get<int64_t>() + values["bytes"][i].get<int64_t>(),
                  space["arena"].get<int64_t>());
        for (auto at = values["first"][i].get<size_t>(); at <= values["last"][i].get<size_t>();
             ++at)
          totals[at] -= values["bytes"][i].get<int64_t>();
      }
      EXPECT_THAT(totals, ::testing::Each(0));
    }
  }
}

TEST(PlanSubject, SimultaneousOpsKeepPeak) {
  const Plan plan = plan_for_page({.accum = 3});
  for (const int64_t most : {1000, 50, 7}) {
    const Axis axis(plan.module, plan.memory, most);
    EXPECT_LE(axis.size(), most + std::ssize(axis.programs()));
    Texts texts;
    const SpaceBreakdown& device = plan.memory.device();
    const Json space = space_json(plan.module, device, Space::device, axis, {}, texts);
    const Json named = axis.json(texts, predicted_spans(plan.module, nominal_model(Backend::cpu)));
    const std::vector<int64_t> totals = totals_of({{"axes", Json::array({named})}}, space);
    EXPECT_EQ(*std::ranges::max_element(totals), device.placement.max_live_bytes);
    EXPECT_EQ(totals[space["peak"].get<size_t>()], device.placement.max_live_bytes);
    EXPECT_EQ(named["name"].size(), totals.size());
    const auto peak = space["peak"].get<size_t>();
    EXPECT_EQ(texts.all()[named["name"][peak].get<size_t>()],
              without_layer(plan.module.layers, device.peak.op, device.peak.layer));
    EXPECT_EQ(named["begin_us"].size(), totals.size() + 1);
    EXPECT_TRUE(std::ranges::is_sorted(named["begin_us"].get<std::vector<int64_t>>()));
  }
}

TEST(PlanSubject, EarlierValuesHaveNoProducer) {
  const Plan plan = plan_for_page({});
  const Json values = subject_for(plan)["spaces"][0]["values"];
  const auto params = static_cast<int>(Category::params);
  int seen = 0;
  for (size_t i = 0; i < values["made"].size(); ++i) {
    if (values["category"][i] != params) continue;
    EXPECT_EQ(values["made"][i], -1);
    ++seen;
  }
  EXPECT_GT(seen, 0);
}

// What --profile exports for PyTorch's viewer, read back as if PyTorch had written it.
TEST(SnapshotSubject, ExportedPlanSnapshotKeepsPeak) {
  testing::TempDir dir;
  for (const Recipe& recipe : recipes_for_page()) {
    const Plan plan = plan_for_page(recipe);
    testing::write_bytes(dir / "s.pickle", memory_snapshot_pickle(plan.module, {}));
    const pytorch::Snapshot snapshot = pytorch::read_snapshot(dir / "s.pickle");
    EXPECT_EQ(pytorch::examine(snapshot).at(0).peak.allocated,
              plan.memory.device().placement.max_live_bytes);
  }
}

TEST(PlanSubject, NamesShareTheTextOfTheirLayer) {
  const Plan plan = plan_for_page({});
  const Json subject = subject_for(plan);
  std::set<std::string> names;
  const Json& values = subject["spaces"][0]["values"];
  for (size_t i = 0; i < values["name"].size(); ++i) {
    std::string text = subject["texts"][values["name"][i].get<size_t>()];
    const int layer = values["layer"][i];
    if (const size_t at = text.find(kLayerMark); at != text.npos)
      text.replace(at, 1, subject["layers"].at(static_cast<size_t>(layer)).get<std::string>());
    names.insert(text);
  }
  for (const Value& value : plan.module.values) {
    const bool resides = value.owns_bytes() && value.shared() && value.storage_bytes() > 0;
    EXPECT_TRUE(!resides || names.contains(value.name)) << value.name;
  }
  EXPECT_EQ(without_layer({"h.0", "h.1"}, "grad.h.1.mlp", 1), "grad.\x01.mlp");
  EXPECT_EQ(without_layer({"h.0", "h.1"}, "grad.h.11.mlp", 1), "grad.h.11.mlp");
}

TEST(PlanSubject, ChangesSortedByCostCanBePasted) {
  const Plan plan = plan_for_page({});
  PlanFacts facts{.model = "tiny", .batch = 2, .seq = 32};
  facts.budget_bytes = 1 << 20;
  facts.advice = {
      {.change = "--recompute full", .pins = "--batch 1", .peak_bytes = 1 << 19, .slower = 0.3},
      {.change = "--loss chunked", .peak_bytes = 1 << 21, .slower = -0.1}};
  const Json subject = subject_for(plan, facts);
  EXPECT_EQ(subject["answer"]["verdict"], "does not fit");
  EXPECT_EQ(subject["advice"]["title"], "What would make it fit");
  const Json& rows = subject["advice"]["rows"];
  EXPECT_EQ(rows[0]["change"], "--loss chunked");
  EXPECT_EQ(rows[0]["fits"], false);
  EXPECT_EQ(rows[1]["command"], "snug plan tiny --batch 1 --recompute full");
  EXPECT_EQ(rows[1]["fits"], true);
}

TEST(PlanSubject, CommandIsQuotedForShell) {
  Options options;
  options.model = "my model's";
  options.batch = 4;
  options.given = {"model", "batch", "tf32"};
  options.tf32 = true;
  EXPECT_EQ(command_line("plan", options), "snug plan 'my model'\\''s' --batch 4 --tf32");
}

TEST(Page, NoTextOfTheDocumentIsMarkup) {
  const std::string hostile = "</script><img src=x onerror=alert(1)>{{title}}{{data}}<!--";
  const std::string html = page_html(hostile, {Json{{"kind", "plan"}, {"name", hostile + "\xff"}}});
  EXPECT_EQ(html.find("<img"), html.npos);
  EXPECT_EQ(split(html, '<').size(),
            split(page_html("x", {}), '<').size());  // the tags of an empty page
  const size_t begin = html.find("id=\"data\">") + 10, end = html.find("</script>", begin);
  const Json document = Json::parse(html.substr(begin, end - begin));
  EXPECT_EQ(document["title"], hostile);
  EXPECT_EQ(document["subjects"][0]["name"], hostile + "\xEF\xBF\xBD");
}

TEST(Page, AsksNothingOfTheNetwork) {
  const std::string html = page_html("x", {});
  EXPECT_THAT(html, ::testing::HasSubstr("default-src 'none'"));
  EXPECT_EQ(html.find("http:"), html.npos);
  EXPECT_EQ(html.find("https:"), html.npos);
  EXPECT_LT(html.size(), 100'000U);
}

TEST(PageLanes, MillionSpansMergeAndKeepTheirTime) {
  std::vector<ShownSpan> spans;
  for (int i = 0; i < 1'000'000; ++i)
    spans.push_back({.lane = i % 2 == 0 ? "compute" : "copy",
                     .begin = i * 1e-6,
                     .end = (i + 1) * 1e-6,
                     .name = fmt::format("op {}", i)});
  Texts texts;
  const Json json = lanes_json("measured", std::move(spans), texts, {});
  EXPECT_EQ(json["spans"], 1'000'000);
  EXPECT_LE(json["shown"], kMostSpans);
  EXPECT_GE(json["shown"], kMostSpans / 4);
  EXPECT_EQ(json["end_us"], 1'000'000);
  EXPECT_LT(json.dump().size() + Json(texts.all()).dump().size(), 1'000'000U);
  for (const Json& lane : json["lanes"]) {
    const auto ops = lane["ops"].get<std::vector<int64_t>>();
    EXPECT_EQ(std::accumulate(ops.begin(), ops.end(), int64_t{0}), 500'000);
    EXPECT_NEAR(lane["busy_us"].get<double>(), 500'000, 1);
  }
}

TEST(PageLanes, ZeroLengthSpansAreMerged) {
  Texts texts;
  const Json json =
      lanes_json("measured", std::vector<ShownSpan>(100, {.lane = "a"}), texts, {}, 10);
  EXPECT_LE(json["shown"], 10);
}

// Some steps of a training: parameters first, then transient activations.
pytorch::Snapshot recorded(int steps) {
  pytorch::Recorder r;
  const pytorch::StackId made = r.stack({{"/w/train.py", "main", 1}});
  const pytorch::StackId forward = r.stack({{"/env/torch/nn/modules/linear.py", "forward", 1}});
  static_cast<void>(r.alloc(1 << 20, made));
  for (int step = 0; step < steps; ++step) {
    std::vector<int64_t> kept;
    for (int i = 0; i < 5; ++i) kept.push_back(r.alloc(4096 << i, forward));
    r.free(kept);
  }
  return r.snapshot();
}

TEST(SnapshotSubject, PeakSurvivesFewInstants) {
  const pytorch::Snapshot snapshot = recorded(20);
  const pytorch::DeviceFindings findings = pytorch::examine(snapshot).at(0);
  for (const int64_t most : {10'000, 40, 1}) {
    Texts texts;
    const DeviceOnPage device =
        device_on_page(snapshot, snapshot.devices[0], findings, 0, texts, most, 1000);
    EXPECT_LE(device.axis["size"], most);
    const std::vector<int64_t> totals =
        totals_of({{"axes", Json::array({device.axis})}}, device.space);
    EXPECT_EQ(*std::ranges::max_element(totals), findings.peak.allocated);
    EXPECT_EQ(totals[device.space["peak"].get<size_t>()], findings.peak.allocated);
    EXPECT_EQ(device.axis["name"].size(), totals.size());
    EXPECT_EQ(device.axis["begin_us"].size(), totals.size() + 1);
  }
}

TEST(SnapshotSubject, BadClocksAreTolerated) {
  pytorch::Snapshot snapshot = recorded(3);
  std::vector<pytorch::Event>& trace = snapshot.devices[0].trace;
  trace[0].time_us = 1;
  trace[1].time_us = std::numeric_limits<int64_t>::min();
  trace[2].time_us = std::numeric_limits<int64_t>::max();
  Texts texts;
  const DeviceOnPage device = device_on_page(snapshot, snapshot.devices[0],
                                             pytorch::examine(snapshot).at(0), 0, texts, 1000, 10);
  const auto begins = device.axis["begin_us"].get<std::vector<int64_t>>();
  EXPECT_TRUE(std::ranges::is_sorted(begins));
  EXPECT_LT(begins.back(), int64_t{1} << 53);
}

TEST(SnapshotSubject, AnswerIsAboutWorstDevice) {
  pytorch::Snapshot snapshot = recorded(3);
  snapshot.devices.push_back(snapshot.devices[0]);
  std::vector<pytorch::DeviceFindings> findings = pytorch::examine(snapshot);
  ASSERT_EQ(findings.size(), 2U);
  findings[1].device = 1;
  findings[1].leaks.push_back({.bytes = 1});
  const Json subject =
      snapshot_subject({.file = "s.pickle", .snapshot = &snapshot, .devices = findings}, "");
  EXPECT_EQ(subject["answer"]["verdict"], "leaks");
  EXPECT_THAT(subject["answer"]["text"].get<std::string>(),
              ::testing::AllOf(::testing::StartsWith("device 1: "),
                               ::testing::EndsWith("most at a place without frames")));
  EXPECT_EQ(subject["spaces"][0]["name"], "device 1");
  EXPECT_EQ(subject["spaces"][0]["axis"], 0);
}

TEST(SnapshotSubject, PageOfManyStepsStaysSmall) {
  const pytorch::Snapshot snapshot = recorded(20'000);
  const Json subject = snapshot_subject(
      {.file = "s.pickle", .snapshot = &snapshot, .devices = pytorch::examine(snapshot)}, "");
  EXPECT_LT(subject.dump().size(), 2'000'000U);
  EXPECT_THAT(subject["notes"].dump(), ::testing::HasSubstr("events are one instant"));
  EXPECT_THAT(subject["notes"].dump(), ::testing::HasSubstr("allocations are drawn"));
}

TEST(SnapshotSubject, LiveAllocationsDoNotOverlap) {
  const pytorch::Snapshot snapshot = recorded(3);
  Texts texts;
  const DeviceOnPage device = device_on_page(snapshot, snapshot.devices[0],
                                             pytorch::examine(snapshot).at(0), 0, texts, 1000, 10);
  const Json& v = device.space["values"];
  EXPECT_EQ(v["all"], 16);
  ASSERT_EQ(v["bytes"].size(), 10U);  // the largest and longest of them
  const auto number = [&](const char* key, size_t i) { return v[key][i].get<int64_t>(); };
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_LE(number("offset", i) + number("bytes", i), device.space["map_bytes"].get<int64_t>());
    for (size_t k = 0; k < i; ++k) {
      const bool together =
          number("first", i) <= number("last", k) && number("first", k) <= number("last", i);
      const bool overlap = number("offset", i) < number("offset", k) + number("bytes", k) &&
                           number("offset", k) < number("offset", i) + number("bytes", i);
      EXPECT_FALSE(together && overlap) << i << " and " << k;
    }
  }
}

}  // namespace
}  // namespace snug

#include "plan/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace snug {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int64_t kMiB = 1 << 20;

// Twelve equal layers of a model that peaks in the backward of the last one.
Account sample_account() {
  Account account;
  SpaceAccount& device = account.spaces[0];
  device.breakdown[static_cast<size_t>(Category::params)] = 475 * kMiB;
  device.breakdown[static_cast<size_t>(Category::grads)] = 475 * kMiB;
  device.breakdown[static_cast<size_t>(Category::optimizer)] = 950 * kMiB;
  device.breakdown[static_cast<size_t>(Category::activations)] = 2100 * kMiB;
  device.breakdown[static_cast<size_t>(Category::inputs)] = 65'536;
  device.gaps = 3'584;
  device.category_peaks = device.breakdown;
  device.placement = {.arena_bytes = total(device.breakdown) + device.gaps,
                      .max_live_bytes = total(device.breakdown),
                      .transient_arena_bytes = 2101 * kMiB,
                      .transient_max_live_bytes = 2100 * kMiB};
  device.peak = {"micro_first", 214, "h.11.mlp.act.grad", 11, Phase::backward};
  device.largest = {{"h.11.mlp.act.a_name_that_goes_on_for_longer_than_its_column",
                     {Dtype::f32, {8, 1024, 3072}},
                     Category::activations,
                     11,
                     96 * kMiB}};
  account.layers.push_back({.layer = kNoLayer, .params = 150 * kMiB});
  for (int32_t l = 0; l < 12; ++l) {
    account.layers.push_back({.layer = l, .params = 27 * kMiB, .kept = 180 * kMiB});
  }
  account.layers.back().at_peak = kMiB;
  account.programs = {{"micro_first", 1, 530}, {"update", 1, 150}};
  account.shared[static_cast<size_t>(Category::params)] = 4 * 124'439'808LL;
  account.shared[static_cast<size_t>(Category::grads)] = 4 * 124'439'808LL;
  account.shared[static_cast<size_t>(Category::optimizer)] = 8 * 124'439'808LL;
  account.trainable_params = 124'439'808;
  account.step_flops = {2.1e12, 4.2e12, 1.5e9};
  return account;
}

PlanFacts sample_facts() {
  PlanFacts facts{.model = "gpt2", .batch = 8, .seq = 1024};
  facts.recipe = {{"precision", "fp32"},
                  {"optimizer", "adamw"},
                  {"attention", "flash"},
                  {"loss", "chunked:1024"},
                  {"recompute", "none"},
                  {"accum", 1},
                  {"zero", 0},
                  {"offload", "none"},
                  {"deterministic", true}};
  return facts;
}

size_t columns_of(const std::string& line) {
  return static_cast<size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

TEST(RenderPlan, StaysWithinAHundredColumnsAndPlainText) {
  PlanFacts facts = sample_facts();
  facts.budget_bytes = kMiB;
  facts.advice = {{"--batch 4", 2900 * kMiB, {}}};
  const std::string text = render_plan(sample_account(), facts, /*colour=*/false);
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(columns_of(line), 100U) << line;
}

TEST(RenderPlan, SaysWhatAndWhere) {
  const std::string text = render_plan(sample_account(), sample_facts(), false);
  for (const char* part : {"gpt2 · 124.44 M parameters · batch 8 x 1024 · 8,192 tokens per step",
                           "optimizer adamw", "deterministic true", "4,194,373,120", "gaps",
                           "backward, layer 11", "h.11.mlp.act.grad", "arena / max-live 1.0000",
                           "1.0005", "16.00 bytes per parameter", "0..10 each", "no layer"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, Not(HasSubstr("budget")));
  EXPECT_THAT(text, Not(HasSubstr("staging")));
}

TEST(RenderPlan, ColoursOnlyWhenAsked) {
  EXPECT_THAT(render_plan(sample_account(), sample_facts(), true), HasSubstr("\x1b["));
}

TEST(RenderPlan, VerdictOnTheBudget) {
  PlanFacts facts = sample_facts();
  facts.budget_bytes = 24LL << 30;
  EXPECT_THAT(render_plan(sample_account(), facts, false),
              HasSubstr("fits  budget 24.00 GiB: 20.09 GiB left"));
  facts.budget_bytes = 3LL << 30;
  facts.advice = {{"--batch 4", 2900 * kMiB, {}}, {"--batch 6", 3400 * kMiB, {}}};
  const std::string text = render_plan(sample_account(), facts, false);
  EXPECT_THAT(text, HasSubstr("does not fit  budget 3.00 GiB: 928.07 MiB too much"));
  EXPECT_THAT(text, testing::ContainsRegex("--batch 4 +2.83 GiB  fits"));
  EXPECT_THAT(text, testing::ContainsRegex("--batch 6 +3.32 GiB  not yet"));
}

TEST(RenderPlan, AModelWithoutAnythingStillPrints) {
  EXPECT_THAT(render_plan({}, {.model = "empty"}, false), HasSubstr("empty"));
}

TEST(PlanJson, HasTheFieldsThatOthersRelyOn) {
  const auto json = plan_json(sample_account(), sample_facts());
  for (const char* field :
       {"fits", "arena_bytes", "max_live_bytes", "budget_bytes", "breakdown", "host_bytes",
        "disk_bytes", "params", "step_ms", "tokens_per_s", "recipe", "advice", "category_peaks",
        "peak", "layers", "transient", "programs"}) {
    EXPECT_TRUE(json.contains(field)) << field;
  }
  EXPECT_EQ(json["fits"], true);
  EXPECT_EQ(json["params"], 124'439'808);
  EXPECT_TRUE(json["budget_bytes"].is_null());
  EXPECT_TRUE(json["step_ms"].is_null());
  EXPECT_TRUE(json["tokens_per_s"].is_null());
  EXPECT_EQ(json["recipe"]["optimizer"], "adamw");
  EXPECT_EQ(json["peak"]["phase"], "backward");
  EXPECT_TRUE(json["layers"][0]["layer"].is_null());
}

TEST(PlanJson, BreakdownAddsUpToTheArena) {
  const auto json = plan_json(sample_account(), sample_facts());
  int64_t sum = 0;
  for (const auto& bytes : json["breakdown"]) sum += bytes.get<int64_t>();
  EXPECT_EQ(sum, json["arena_bytes"]);
}

TEST(PlanJson, AdviceOnlyWhereItDoesNotFit) {
  PlanFacts facts = sample_facts();
  facts.advice = {{"--batch 4", 2900 * kMiB, 12.5}};
  EXPECT_TRUE(plan_json(sample_account(), facts)["advice"].empty());
  facts.budget_bytes = 3LL << 30;
  const auto json = plan_json(sample_account(), facts);
  EXPECT_EQ(json["fits"], false);
  EXPECT_EQ(json["advice"][0]["change"], "--batch 4");
  EXPECT_EQ(json["advice"][0]["step_ms"], 12.5);
}

TEST(PlanJson, SpeedFollowsFromTheStepTime) {
  PlanFacts facts = sample_facts();
  facts.accum = 2;
  facts.step_ms = 1000;
  EXPECT_DOUBLE_EQ(plan_json(sample_account(), facts)["tokens_per_s"].get<double>(), 2 * 8 * 1024);
}

}  // namespace
}  // namespace snug

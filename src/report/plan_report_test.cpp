#include "report/plan_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "base/text.h"
#include "report/plan_report_parts.h"

namespace snug {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kMiB = 1 << 20;

// Twelve equal layers of a model that peaks in the backward of the last one.
MemoryBreakdown sample_account() {
  MemoryBreakdown memory;
  SpaceBreakdown& device = memory.spaces[0];
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
  device.phase_peaks = {int64_t{3} << 30, total(device.breakdown), 0};
  device.peak = {"micro_first", 214, "h.11.mlp.act.grad", 11, Phase::backward};
  device.largest = {{"h.11.mlp.act.a_name_that_goes_on_for_longer_than_its_column",
                     {Dtype::f32, {8, 1024, 3072}},
                     Category::activations,
                     11,
                     96 * kMiB}};
  memory.layers.push_back({.layer = kNoLayer, .params = 150 * kMiB});
  for (int32_t l = 0; l < 12; ++l) {
    memory.layers.push_back({.layer = l, .params = 27 * kMiB, .kept = 180 * kMiB});
  }
  memory.layers.back().at_peak = kMiB;
  memory.programs = {{"micro_first", 1, 530}, {"update", 1, 150}};
  memory.shared[static_cast<size_t>(Category::params)] = 4 * 124'439'808LL;
  memory.shared[static_cast<size_t>(Category::grads)] = 4 * 124'439'808LL;
  memory.shared[static_cast<size_t>(Category::optimizer)] = 8 * 124'439'808LL;
  memory.trainable_params = 124'439'808;
  memory.step_flops = {2.1e12, 4.2e12, 1.5e9};
  return memory;
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

Advice advice(std::string change, int64_t peak, double slower = 0.1,
              Effect effect = Effect::exact) {
  const int64_t arena = sample_account().device().placement.arena_bytes;
  return {std::move(change), "", effect, peak, arena - peak, 1000 * (1 + slower), slower};
}

size_t columns_of(const std::string& line) {
  return static_cast<size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

TEST(RenderPlan, IsPlainTextWithin100Columns) {
  PlanFacts facts = sample_facts();
  facts.step_ms = 123'456;
  facts.rests_on = "catalogue figures of a device whose name is long, GeForce RTX 4090 Ti Super";
  facts.attention = AttentionFacts{.by = Server::plain_tiles,
                                   .why = "fp32 and heads of more than 128 elements",
                                   .instead = "--attention flash with --precision bf16",
                                   .share = 1,
                                   .times = 100};
  facts.explain = true;
  facts.runners_up = {
      {"--batch 4 --accum 2 --attention standard --loss chunked:256 --precision bf16 "
       "--master none --optimizer adamw8bit --compress int8",
       Effect::learning, 2900 * kMiB, 99.5, "4.2 % slower"},
      {"--batch 4 --accum 2", Effect::rounding, 101'570 * kMiB, 4.95,
       "needs 23.36 GiB more than the budget however much it recomputes"}};
  facts.changed = {"--batch 4 --accum 2", "--attention standard", "--loss chunked:256",
                   "--precision bf16 --master none", "--optimizer adamw8bit"};
  facts.chosen =
      ChosenRecompute{.policy =
                          "layers 10-13 drop attn.norm, attn.rope, attn.mix, mlp.norm.h, mlp.norm, "
                          "mlp.gate_up, mlp.act; 14 drop attn.norm",
                      .needed_without = 4000 * kMiB,
                      .extra_time = 0.1};
  facts.advice = {
      advice("--batch 4 --accum 2 --precision bf16 --master none --optimizer adamw8bit "
             "--update-in-backward --clip 0",
             2900 * kMiB)};
  for (const int64_t budget : {kMiB, 1'000'000 * kMiB}) {
    facts.budget_bytes = budget;
    facts.context_bytes = budget / 2;
    const std::string text = render_plan(sample_account(), facts, /*colour=*/false);
    EXPECT_THAT(text, Not(HasSubstr("\x1b")));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(columns_of(line), 100U) << line;
  }
}

TEST(RenderPlan, ReportsCostOfKeeping) {
  PlanFacts facts = sample_facts();
  facts.chosen = ChosenRecompute{.policy = "full", .needed_without = kMiB, .extra_time = -0.2};
  const std::string text = render_plan(sample_account(), facts, false);
  EXPECT_THAT(text,
              HasSubstr("keeping everything takes 25.0 % longer: kept values are offloaded\n"));
}

TEST(RenderPlan, ReportsCostOfCheckpoints) {
  PlanFacts facts = sample_facts();
  facts.saves = SaveFacts{.every = "20 steps",
                          .bytes = 8 * kMiB,
                          .staging = 6 * kMiB,
                          .disk_seconds = 4.6,
                          .waits_seconds = 0.25};
  EXPECT_THAT(render_plan(sample_account(), facts, false),
              HasSubstr("saves    every 20 steps, 8.00 MiB each: 4.6 s of disk during training, "
                        "which waits for 250 ms\n         6.00 MiB of staging in host memory\n"));
  EXPECT_EQ(plan_json(sample_account(), facts)["saves"]["staging_bytes"], 6 * kMiB);
  facts.saves->overlapped = false;
  EXPECT_THAT(render_plan(sample_account(), facts, false),
              HasSubstr("8.00 MiB each: 4.6 s of disk, for which training waits\n"));
}

TEST(RenderPlan, ShowsFactsPeakAndLayers) {
  const std::string text = render_plan(sample_account(), sample_facts(), false);
  for (const char* part :
       {"gpt2 · 124.44 M parameters · batch 8 x 1024 · 8,192 tokens per step", "optimizer adamw",
        "deterministic true", "4,194,373,120", "gaps",
        "in backward, layer 11, at h.11.mlp.act.grad (op 214 of micro_first)",
        "each phase at most: forward 3.00 GiB, backward 3.91 GiB", "fragmentation 0.00 %", "0.05 %",
        "16.00 bytes per parameter", "0..10 each", "no layer"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, HasSubstr("\nneeds  3.91 GiB at the peak ("));
  EXPECT_THAT(text, Not(HasSubstr("budget")));
  EXPECT_THAT(text, Not(HasSubstr("staging")));
}

TEST(RenderPlan, NamesAttentionServer) {
  PlanFacts facts = sample_facts();
  const auto text = [&] { return render_plan(sample_account(), facts, false); };
  EXPECT_THAT(text(), Not(HasSubstr("kernels  "))) << "on a CPU";
  facts.attention = AttentionFacts{.by = Server::cudnn, .share = 0.07};
  EXPECT_THAT(text(), HasSubstr("\nkernels  attention on cuDNN's kernels, 7 % of the step\n"));
  facts.attention = AttentionFacts{.by = Server::tensor_cores, .why = "dropout", .share = 0.1};
  EXPECT_THAT(text(),
              HasSubstr("attention on Snug's tensor-core kernels (dropout), 10 % of the step\n"));
  facts.attention = AttentionFacts{.by = Server::plain_tiles,
                                   .why = "fp32 without --tf32",
                                   .instead = "--tf32 or --precision bf16",
                                   .share = 0.46,
                                   .times = 23.6};
  EXPECT_THAT(text(),
              HasSubstr("\nkernels  attention on plain tiles (fp32 without --tf32), 46 % of "
                        "the step: about 24 times slower"));
  EXPECT_THAT(text(), HasSubstr("--tf32 or --precision bf16 would use tensor cores\n"));
  EXPECT_THAT(render_plan(sample_account(), facts, true), HasSubstr("\x1b[1;31mkernels"));
}

// The names of the rows of layers that keep these bytes each.
std::vector<std::string> layer_rows(const std::vector<int64_t>& kept) {
  MemoryBreakdown memory = sample_account();
  memory.layers.clear();
  for (size_t i = 0; i < kept.size(); ++i)
    memory.layers.push_back({.layer = static_cast<int32_t>(i), .kept = kept[i]});
  const std::string text = layers_text(memory, Paint{false});
  std::vector<std::string> names;
  for (const std::string& line : split(text, '\n'))
    if (line.starts_with("  ")) names.push_back(line.substr(2, line.find("  ", 2) - 2));
  return names;
}

TEST(RenderPlan, EqualLayersShareOneRow) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(layer_rows({1, 1, 1}), Names{"0..2 each"});
  EXPECT_EQ(layer_rows({1, 2, 1, 2, 1, 2, 1, 2, 3}), (Names{"0,2..6 each", "1,3..7 each", "8"}));
  EXPECT_EQ(layer_rows({1, 1, 2, 1, 1}), (Names{"0..1,3..4 each", "2"}));
  std::vector<int64_t> many(40, 1);
  for (const size_t i : {3, 4, 8, 9, 13, 16, 17, 22, 25, 33}) many[i] = 2;
  EXPECT_EQ(layer_rows(many), (Names{"30 of 0..39 each", "10 of 3..33 each"}));
}

TEST(RenderPlan, MasterIsNamedWithItsBytes) {
  MemoryBreakdown memory = sample_account();
  EXPECT_THAT(layers_text(memory, Paint{false}), HasSubstr("  optimizer  "));
  memory.shared[static_cast<size_t>(Category::master)] = kMiB;
  EXPECT_THAT(layers_text(memory, Paint{false}), HasSubstr("  master+opt  "));
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
  facts.advice = {advice("--batch 4", 2900 * kMiB, 0.05, Effect::rounding),
                  advice("--batch 6", 3400 * kMiB)};
  const std::string text = render_plan(sample_account(), facts, false);
  EXPECT_THAT(text, HasSubstr("does not fit  budget 3.00 GiB: 928.07 MiB too much"));
  EXPECT_LT(text.find("does not fit"), text.find("device memory at the peak")) << "verdict first";
  EXPECT_THAT(text,
              ::testing::ContainsRegex("what would fit [^\n]+\n  --batch 4 +2.83 GiB +-1.07 GiB "
                                       "+1.05 s +.5.0 %  rounding\n"));
  EXPECT_THAT(text, ::testing::ContainsRegex("would not be enough [^\n]+\n  --batch 6 +3.32 GiB "));
  EXPECT_THAT(text, Not(HasSubstr("one device")));
}

TEST(RenderPlan, LackOfAdviceIsReported) {
  PlanFacts facts = sample_facts();
  facts.budget_bytes = kMiB * 1024;
  const std::string state = "params, grads and optimizer alone take 1.85 GiB of 1.00 GiB\n";
  std::string text = render_plan(sample_account(), facts, false);
  EXPECT_THAT(text, HasSubstr(state + "  one device of this size cannot hold it"));
  facts.budget_bytes = kMiB * 100;
  text = render_plan(sample_account(), facts, false);
  EXPECT_THAT(text, HasSubstr("its weights in 16 bits, with nothing else, take 237.35 MiB"));
}

TEST(RenderPlan, FittingPlanGetsFasterAndSmallerAdvice) {
  PlanFacts facts = sample_facts();
  facts.advice = {advice("--attention flash", 3900 * kMiB, -0.2),
                  advice("--recompute full", 2900 * kMiB, 0.3)};
  const std::string text = render_plan(sample_account(), facts, false);
  EXPECT_THAT(text,
              ::testing::ContainsRegex("would be faster [^\n]+\n  --attention flash [^\n]+\n\n"
                                       "what would be smaller [^\n]+\n  --recompute full "));
}

TEST(RenderPlan, NamesSourceOfTimes) {
  PlanFacts facts = sample_facts();
  facts.step_ms = 500;
  facts.rests_on = "measurements on a machine";
  EXPECT_THAT(render_plan(sample_account(), facts, false),
              HasSubstr("time     500.0 ms a step, 16,384 tokens/s, modelled\n"
                        "         rests on measurements on a machine\n"));
}

TEST(RenderPlan, ListsAlternatives) {
  PlanFacts facts = sample_facts();
  facts.changed = {"--batch 4 --accum 2"};
  facts.runners_up = {{"", Effect::exact, 2900 * kMiB, 2.5, "4.2 % slower"}};
  std::string text = render_plan(sample_account(), facts, false);
  EXPECT_THAT(text, HasSubstr("chosen   --batch 4 --accum 2\n"));
  EXPECT_THAT(text, Not(HasSubstr("considered")));
  facts.explain = true;
  text = render_plan(sample_account(), facts, false);
  EXPECT_THAT(text, ::testing::ContainsRegex("as asked +2.83 GiB +2.50 s  exact +4.2 % slower\n"));
  facts.runners_up.clear();
  EXPECT_THAT(render_plan(sample_account(), facts, false), HasSubstr("considered  nothing"));
}

TEST(RenderPlan, EmptyModelPrints) {
  EXPECT_THAT(render_plan({}, {.model = "empty"}, false), HasSubstr("empty"));
}

TEST(PlanJson, HasDocumentedFields) {
  const auto json = plan_json(sample_account(), sample_facts());
  for (const char* field :
       {"fits",       "arena_bytes", "max_live_bytes", "budget_bytes", "breakdown",
        "host_bytes", "disk_bytes",  "params",         "step_ms",      "tokens_per_s",
        "recipe",     "advice",      "category_peaks", "peak",         "layers",
        "transient",  "programs",    "rests_on",       "chosen",       "runners_up",
        "phase_peaks"}) {
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

TEST(PlanJson, AdviceAndRunnersUp) {
  PlanFacts facts = sample_facts();
  facts.advice = {advice("--batch 4", 2900 * kMiB, 0.25, Effect::rounding)};
  facts.runners_up = {{"--loss whole", Effect::rounding, kMiB, 0.5, "slower"}};
  facts.budget_bytes = 3LL << 30;
  const auto json = plan_json(sample_account(), facts);
  EXPECT_EQ(json["fits"], false);
  EXPECT_EQ(json["advice"][0]["change"], "--batch 4");
  EXPECT_EQ(json["advice"][0]["step_ms"], 1250);
  EXPECT_EQ(json["advice"][0]["time_ratio"], 1.25);
  EXPECT_EQ(json["advice"][0]["effect"], "rounding");
  EXPECT_EQ(json["advice"][0]["saves_bytes"].get<int64_t>() + 2900 * kMiB, json["arena_bytes"]);
  EXPECT_EQ(json["runners_up"][0]["change"], "--loss whole");
  EXPECT_EQ(json["runners_up"][0]["step_ms"], 500);
}

TEST(PlanJson, NamesAttentionServer) {
  PlanFacts facts = sample_facts();
  EXPECT_TRUE(plan_json(sample_account(), facts)["attention"].is_null());
  facts.attention = AttentionFacts{.by = Server::tensor_cores, .why = "dropout", .share = 0.25};
  const auto attention = plan_json(sample_account(), facts)["attention"];
  EXPECT_EQ(attention["kernels"], "tensor_cores");
  EXPECT_EQ(attention["why"], "dropout");
  EXPECT_TRUE(attention["instead"].is_null());
  EXPECT_EQ(attention["share_of_step"], 0.25);
}

// The sample with its optimizer's state on the host, prefetched in chunks.
MemoryBreakdown offloaded() {
  MemoryBreakdown memory = sample_account();
  SpaceBreakdown& device = memory.spaces[0];
  SpaceBreakdown& host = memory.spaces[1];
  constexpr auto kOptimizer = static_cast<size_t>(Category::optimizer);
  std::swap(device.breakdown[kOptimizer], host.breakdown[kOptimizer]);
  device.breakdown[static_cast<size_t>(Category::staging)] = 64 * kMiB;
  device.placement.arena_bytes = total(device.breakdown) + device.gaps;
  host.placement = {.arena_bytes = 950 * kMiB, .max_live_bytes = 950 * kMiB};
  return memory;
}

PlanFacts offloaded_facts() {
  PlanFacts facts = sample_facts();
  facts.step_ms = 500;
  facts.rests_on = "catalogue figures of NVIDIA H200";
  facts.moves_rest_on =
      "link 55 GB/s in, 55 GB/s out, 49 GB/s each when both run, by the catalogue; host memory 80 "
      "GB/s, assumed";
  facts.lanes = {{"compute", 0.498, 0.49, 0},
                 {"copy_in", 0.0203, 0.002, 950 * kMiB},
                 {"copy_out", 0.0203, 0, 950 * kMiB}};
  return facts;
}

TEST(RenderPlan, HostAndDiskBytesAreColumns) {
  const std::string text = render_plan(offloaded(), offloaded_facts(), false);
  EXPECT_THAT(text, Not(HasSubstr("device memory at the peak")));
  EXPECT_THAT(text, ::testing::ContainsRegex("its peak +device +host +disk\n"));
  EXPECT_THAT(text, ::testing::ContainsRegex("\n  optimizer [^\n]* - +950.00 MiB +-\n"));
  EXPECT_THAT(text, ::testing::ContainsRegex("\n  staging [^\n]* 64.00 MiB +- +-\n"));
  EXPECT_THAT(text, ::testing::ContainsRegex("\n  arena +3.04 GiB +950.00 MiB +-\n +3,[0-9,]+ "
                                             "+996,147,200 +0\n"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(columns_of(line), 100U) << line;
}

TEST(RenderPlan, EverySpaceHasItsVerdict) {
  PlanFacts facts = offloaded_facts();
  const auto text = [&] { return render_plan(offloaded(), facts, false); };
  EXPECT_THAT(text(), HasSubstr("\nneeds  3.04 GiB at the peak (3,265,334,784 bytes)\n"
                                "  host: 950.00 MiB (996,147,200 bytes); assumed to be there\n"));
  EXPECT_TRUE(fits(offloaded(), facts));
  facts.budget_bytes = 24LL << 30;
  facts.host_budget_bytes = 1LL << 30;
  EXPECT_THAT(text(), HasSubstr("fits  budget 24.00 GiB: 20.96 GiB left"));
  EXPECT_THAT(text(), HasSubstr("  host: 950.00 MiB (996,147,200 bytes); budget 1.00 GiB: 74.00 "
                                "MiB left\n"));
  facts.host_context_bytes = 49 * kMiB;
  EXPECT_TRUE(fits(offloaded(), facts));
  EXPECT_THAT(text(), HasSubstr("  host: 950.00 MiB (996,147,200 bytes); budget 1.00 GiB: 25.00 "
                                "MiB left\n    and 49.00 MiB for uploads, loading and saving\n"));
  facts.host_budget_bytes = 980 * kMiB;
  EXPECT_FALSE(fits(offloaded(), facts));
  EXPECT_THAT(text(), HasSubstr("budget 980.00 MiB: 19.00 MiB too much\n"));
  facts.host_context_bytes = 0;
  facts.host_budget_bytes = 900 * kMiB;
  EXPECT_FALSE(fits(offloaded(), facts));
  EXPECT_THAT(text(), HasSubstr("does not fit  budget 24.00 GiB: 20.96 GiB left"));
  EXPECT_THAT(text(), HasSubstr("budget 900.00 MiB: 50.00 MiB too much\n"));
  EXPECT_THAT(text(), Not(HasSubstr("one device"))) << "it is the host's memory";
  EXPECT_EQ(plan_json(offloaded(), facts)["host_budget_bytes"], 900 * kMiB);
}

TEST(RenderPlan, FirstLineNamesSubject) {
  PlanFacts facts = sample_facts();
  const auto first = [&] {
    const std::string text = render_plan(sample_account(), facts, false);
    return text.substr(0, text.find('\n'));
  };
  const std::string unsaid = first();
  facts.device = "NVIDIA H200";
  std::string said = unsaid;
  EXPECT_EQ(first(), said.insert(facts.model.size(), " on NVIDIA H200"));
  facts.device = "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition";
  EXPECT_THAT(first(), ::testing::StartsWith(facts.model + " on " + facts.device + " · "));
  EXPECT_LT(first().size(), unsaid.size() + facts.device.size()) << "it goes on below";
}

TEST(RenderPlan, WholeModelOfStagesIsCounted) {
  PlanFacts facts = sample_facts();
  const int64_t here = plan_json(sample_account(), facts)["params"];
  EXPECT_EQ(plan_json(sample_account(), facts)["model_params"], here);
  facts.model_params = 405'000'000'000;
  EXPECT_THAT(render_plan(sample_account(), facts, false),
              AllOf(HasSubstr("405.00 B parameters ("), HasSubstr(" on this stage)")));
  EXPECT_EQ(plan_json(sample_account(), facts)["model_params"], facts.model_params);
  EXPECT_EQ(plan_json(sample_account(), facts)["params"], here);
}

TEST(RenderPlan, RefusalOfRanksSaysWhatDividesMore) {
  PlanFacts facts = sample_facts();
  facts.budget_bytes = kMiB;
  EXPECT_THAT(render_plan(sample_account(), facts, false), HasSubstr("one device of this size"));
  facts.ranks = 4;
  EXPECT_THAT(render_plan(sample_account(), facts, false),
              AllOf(HasSubstr("a rank's part is too large"), Not(HasSubstr("one device"))));
}

TEST(RenderPlan, FreeMemoryBudgetIsNamed) {
  PlanFacts facts = sample_facts();
  facts.budget_bytes = 139LL << 30;
  EXPECT_THAT(render_plan(sample_account(), facts, false), Not(HasSubstr("free on this GPU")));
  facts.within_free_memory = true;
  EXPECT_THAT(render_plan(sample_account(), facts, false),
              HasSubstr("fits  budget 139.00 GiB, free on this GPU: "));
}

TEST(RenderPlan, LanesReportHiddenTime) {
  const std::string text = render_plan(offloaded(), offloaded_facts(), false);
  EXPECT_THAT(text, ::testing::ContainsRegex("lanes of a step +busy +hidden +exposed +bytes moved\n"
                                             "  compute +498.0 ms +8.0 ms +490.0 ms +-\n"
                                             "  copy_in +20.3 ms +18.3 ms +2.0 ms +950.00 MiB\n"
                                             "  copy_out +20.3 ms +20.3 ms +- +950.00 MiB\n"));
  EXPECT_THAT(text, HasSubstr("         moves by link 55 GB/s in, 55 GB/s out, "));
  EXPECT_THAT(render_plan(sample_account(), sample_facts(), false), Not(HasSubstr("lanes")));
}

TEST(RenderPlan, BytesToOtherMachinesAreReported) {
  PlanFacts facts = offloaded_facts();
  facts.links = {.within = 3 * kMiB};
  EXPECT_THAT(render_plan(offloaded(), facts, false), Not(HasSubstr("other machines")));
  facts.links.between = kMiB;
  EXPECT_THAT(
      render_plan(offloaded(), facts, false),
      HasSubstr("  a rank sends 3.00 MiB inside its machine and 1.00 MiB to other machines\n"));
  EXPECT_EQ(plan_json(offloaded(), facts)["sent_bytes"]["to_other_machines"], kMiB);
}

TEST(PlanJson, HasSpacesAndLanesOfOffload) {
  EXPECT_FALSE(plan_json(sample_account(), sample_facts()).contains("lanes"));
  EXPECT_FALSE(plan_json(sample_account(), sample_facts()).contains("spaces"));
  const auto json = plan_json(offloaded(), offloaded_facts());
  EXPECT_EQ(json["host_bytes"], 950 * kMiB);
  EXPECT_EQ(json["spaces"]["host"]["breakdown"]["optimizer"], 950 * kMiB);
  EXPECT_EQ(json["spaces"]["device"]["arena_bytes"], json["arena_bytes"]);
  EXPECT_EQ(json["lanes"][1]["lane"], "copy_in");
  EXPECT_DOUBLE_EQ(json["lanes"][1]["exposed_ms"].get<double>(), 2);
  EXPECT_EQ(json["lanes"][1]["moved_bytes"], 950 * kMiB);
  EXPECT_THAT(json["moves_rest_on"].get<std::string>(), HasSubstr("assumed"));
}

TEST(PlanJson, SpeedFollowsFromTheStepTime) {
  PlanFacts facts = sample_facts();
  facts.accum = 2;
  facts.step_ms = 1000;
  EXPECT_DOUBLE_EQ(plan_json(sample_account(), facts)["tokens_per_s"].get<double>(), 2 * 8 * 1024);
}

}  // namespace
}  // namespace snug

// What plan and models print: the fields that others rely on, sums that add up, and the same bytes
// every time.
#include "cli_fixture.h"
#include "ir/text.h"
#include "models/families/catalogue.h"
#include "ops/registry.h"

namespace snug {
namespace {

using CliPlan = Cli;

TEST_F(CliPlan, JsonHasDocumentedFields) {
  const Ended run = snug("plan tiny --seq 16 --json --budget 1GiB");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.err, "");
  const auto plan = nlohmann::json::parse(run.out);
  for (const char* field : {"fits", "arena_bytes", "max_live_bytes", "budget_bytes", "breakdown",
                            "host_bytes", "disk_bytes", "params", "step_ms", "tokens_per_s",
                            "rests_on", "attention", "recipe", "chosen", "runners_up", "advice"})
    EXPECT_TRUE(plan.contains(field)) << field;
  EXPECT_EQ(plan["fits"], true);
  EXPECT_EQ(plan["budget_bytes"], 1 << 30);
  EXPECT_EQ(plan["params"], 21'624);
  EXPECT_GT(plan["step_ms"], 0);
  EXPECT_DOUBLE_EQ(plan["tokens_per_s"].get<double>(),
                   8 * 16 * 1e3 / plan["step_ms"].get<double>());
}

// An update on the host takes as long as its memory needs for the bytes: 28 of each parameter.
TEST_F(CliPlan, HostLaneUsesMemoryBandwidth) {
  const auto plan = nlohmann::json::parse(
      snug("plan gpt2 --gpu h200 --precision bf16 --offload optimizer,master --host-update all "
           "--json")
          .out);
  const auto& lanes = plan["lanes"];
  const auto host = std::ranges::find_if(
      lanes, [](const nlohmann::json& lane) { return lane["lane"] == "host_compute"; });
  ASSERT_NE(host, lanes.end());
  const double at_80_gb_per_s = plan["params"].get<double>() * 28 / 80e9 * 1e3;
  EXPECT_GT((*host)["busy_ms"], at_80_gb_per_s);
  EXPECT_LT((*host)["busy_ms"], 2 * at_80_gb_per_s);
}

TEST_F(CliPlan, BreakdownAddsUp) {
  for (const std::string options : {"", " --attention standard", " --loss whole", " --accum 3"}) {
    const auto plan = nlohmann::json::parse(snug("plan tiny --json" + options).out);
    int64_t sum = 0;
    for (const auto& [category, bytes] : plan["breakdown"].items()) sum += bytes.get<int64_t>();
    EXPECT_EQ(sum, plan["arena_bytes"]) << options;
    EXPECT_TRUE(plan["breakdown"].contains("gaps"));
  }
}

// Where samples begin is one more number of each token, and cuDNN does not serve attention that
// heeds it.
TEST_F(CliPlan, PackedRowsHaveOneMoreInput) {
  const auto plan = [&](const std::string& options) {
    const Ended run = snug("plan gpt2 --dropout 0 --batch 2 --seq 128 --gpu h200 --json" + options);
    EXPECT_EQ(run.code, 0) << run.err;
    return nlohmann::json::parse(run.out);
  };
  const auto apart = plan(""), packed = plan(" --pack");
  EXPECT_EQ(packed["recipe"]["pack"], true);
  EXPECT_EQ(packed["breakdown"]["inputs"].get<int64_t>(),
            apart["breakdown"]["inputs"].get<int64_t>() + 2 * 128 * 4);
  EXPECT_THAT(apart["attention"].dump(), ::testing::HasSubstr("cudnn"));
  EXPECT_THAT(packed["attention"].dump(), ::testing::HasSubstr("packed samples"));
}

TEST_F(CliPlan, RecipeIsResolved) {
  const auto recipe = nlohmann::json::parse(snug("plan tiny --json").out)["recipe"];
  EXPECT_EQ(recipe["model"], "tiny");
  EXPECT_EQ(recipe["seq"], 64) << "as many as the model can take";
  EXPECT_EQ(recipe["attention"], "flash");
  EXPECT_EQ(recipe["dropout"], 0) << "the model's own";
  EXPECT_TRUE(recipe["budget"].is_null());
}

TEST_F(CliPlan, TableShowsOnlySetOptions) {
  const std::string table = snug("plan tiny").out;
  EXPECT_EQ(split(table, '\n')[1],
            "precision fp32 · attention flash · loss chunked · recompute none · optimizer adamw");
  EXPECT_THAT(table, ::testing::Not(::testing::HasSubstr("budget")));
  EXPECT_THAT(table, ::testing::Not(::testing::HasSubstr("\x1b"))) << "colour is for terminals";
}

TEST_F(CliPlan, HeadShowsNonDefaults) {
  const std::string table =
      snug("plan tiny --dropout 0.1 --compress int8 --precision bf16 --loss-scale 8.5").out;
  for (const char* word : {" · dropout 0.1", " · compress int8", "precision bf16 · ",
                           "grad-dtype bf16 · ", "loss-scale 8.5 · "})
    EXPECT_THAT(table, ::testing::HasSubstr(word));
  EXPECT_THAT(table.substr(0, table.find("\n\n")),
              ::testing::Not(::testing::HasSubstr("state-dtype")));
}

TEST_F(CliPlan, ShortMicroBatchCountsItsSequences) {
  EXPECT_THAT(snug("plan tiny --seq 16 --batch 4 --global-batch 10").out,
              ::testing::HasSubstr("batch 4 x 16 · 160 tokens per step in 3 micro-batches\n"));
}

TEST_F(CliPlan, ProgramReadsBack) {
  const Ended run = snug("plan tiny --seq 16 --accum 2 --program");
  ASSERT_EQ(run.code, 0) << run.err;
  const Module module = parse(run.out, ops::registry());
  EXPECT_EQ(print(module), run.out);
  const auto plan = nlohmann::json::parse(snug("plan tiny --seq 16 --accum 2 --json").out);
  EXPECT_EQ(module.arena_bytes[0], plan["arena_bytes"]);
}

TEST_F(CliPlan, TwiceGivesTheSameBytes) {
  EXPECT_EQ(snug("plan gpt2 --json").out, snug("plan gpt2 --json").out);
  EXPECT_EQ(snug("plan tiny --program").out, snug("plan tiny --program").out);
}

// By rule and without a GPU. Attention of gpt2 has dropout of 0.1.
TEST_F(CliPlan, NamesAttentionServerOnGpu) {
  const auto attention = [&](const std::string& options) {
    return nlohmann::json::parse(snug("plan gpt2 --seq 512 --json " + options).out)["attention"];
  };
  EXPECT_TRUE(attention("").is_null()) << "a CPU has no choice";
  const auto plain = attention("--gpu h200 --precision fp32");
  EXPECT_EQ(plain["kernels"], "plain_tiles");
  EXPECT_EQ(plain["why"], "fp32 without --tf32");
  EXPECT_EQ(plain["instead"], "--tf32 or --precision bf16");
  EXPECT_GT(plain["share_of_step"], 0.1);
  EXPECT_LT(plain["share_of_step"], 1);
  EXPECT_EQ(attention("--gpu h200 --tf32")["kernels"], "tensor_cores");
  EXPECT_EQ(attention("--gpu h200 --precision bf16")["why"], "dropout");
  const auto cudnn = attention("--device cuda --precision bf16 --dropout 0");
  EXPECT_EQ(cudnn["kernels"], "cudnn");
  EXPECT_TRUE(cudnn["why"].is_null());
  EXPECT_EQ(attention("--gpu h200 --precision bf16 --attention standard")["instead"],
            "--attention flash");
  EXPECT_THAT(snug("plan gpt2 --seq 512 --gpu h200 --precision fp32").out,
              ::testing::HasSubstr("\nkernels  attention on plain tiles (fp32 without --tf32), "));
}

TEST_F(CliPlan, UnsupportedHeadsAreRefused) {
  write("wide.json",
        R"({"model_type": "gpt2", "n_embd": 640, "n_head": 2, "n_layer": 1, "vocab_size": 64,
            "n_positions": 64})");
  for (const char* where : {"", " --gpu h200", " --gpu h200 --precision bf16"})
    expect_refused(std::string("plan wide.json") + where, ExitCode::usage,
                   "heads of 320 elements: attention takes up to 256");
}

TEST_F(CliPlan, AcceptsTrainOptions) {
  write("run.toml", "model = \"tiny\"\nlr = 1e-3\nsteps = 7\nseq = 16\n");
  EXPECT_EQ(snug("plan --config run.toml").out, snug("plan tiny --seq 16").out);
  EXPECT_EQ(snug("plan tiny --lr 1e-3 --seq 16").out, snug("plan tiny --seq 16").out);
}

TEST_F(CliPlan, ModelsListsThemAll) {
  const Ended run = snug("models");
  EXPECT_EQ(run.code, 0);
  for (const std::string& name : catalogue_names())
    EXPECT_THAT(run.out, ::testing::ContainsRegex("(^|\n)" + name + " ")) << name;
  EXPECT_THAT(run.out, ::testing::HasSubstr("mlp:WxL"));
}

TEST_F(CliPlan, HelpNamesEveryOption) {
  const Ended run = snug("plan --help");
  EXPECT_EQ(run.code, 0);
  EXPECT_THAT(run.out, ::testing::HasSubstr("--budget"));
  EXPECT_THAT(snug("train --help").out, ::testing::HasSubstr("--lr-schedule"));
}

}  // namespace
}  // namespace snug

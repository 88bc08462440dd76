// Techniques as typed, from end to end: a budget that the plain plan exceeds, evaluation under each
// of them, and models saved in two bytes per weight.
#include <cmath>

#include "base/units.h"
#include "cli_fixture.h"
#include "formats/safetensors.h"

namespace snug {
namespace {

constexpr const char* kAllTogether =
    "--precision bf16 --master none --compress int8 --recompute full --attention chunked:8 "
    "--update-in-backward --clip 0 --optimizer adam-mini";
const std::string kTiny = "train tiny --data text.txt --seq 16 ";

class CliTechniques : public Cli {
 protected:
  // Each step was measured as planned.
  static void expect_plan_is_run(const Ended& run) {
    ASSERT_EQ(run.code, 0) << run.err;
    for (const auto& line : lines_of(run)) {
      if (line.contains("eval_loss")) continue;
      EXPECT_EQ(line["peak_bytes"], line["planned_bytes"]);
    }
  }
  std::set<std::string> dtypes_in(const std::string& model) const {
    std::set<std::string> found;
    const SafetensorsFile file(dir_ / (model + "/model.safetensors"));
    for (const TensorEntry& tensor : file.tensors()) found.emplace(tensor.file_dtype);
    return found;
  }
  std::string dtype_in_config(const std::string& model) const {
    const auto config = nlohmann::json::parse(read_file(dir_ / (model + "/config.json")));
    EXPECT_EQ(config["torch_dtype"], config["dtype"]) << "old and new spelling";
    return config["dtype"];
  }
};

TEST_F(CliTechniques, BudgetChoosesRecomputeWithSameBits) {
  const std::string train = kTiny + "--batch 8 --steps 4 --dropout 0.1";
  const auto plain =
      nlohmann::json::parse(snug("plan tiny --seq 16 --batch 8 --dropout 0.1 --json").out);
  const int64_t needed = plain["arena_bytes"];
  const auto want = losses(train);
  for (const int64_t budget : {needed * 9 / 10, needed * 3 / 4}) {
    const std::string within = " --budget " + std::to_string(budget);
    const Ended run = snug(train + within + " --json");
    expect_plan_is_run(run);
    EXPECT_LE(lines_of(run)[0]["planned_bytes"], budget);
    EXPECT_EQ(losses(train + within), want) << "not a bit differs";
    EXPECT_THAT(run.err, ::testing::HasSubstr("chosen   recompute: layer"));
    EXPECT_THAT(run.err, ::testing::ContainsRegex(fmt::format(
                             "keeping everything needs {} \\({} bytes\\); [^\n]*[0-9.]+ %",
                             format_bytes(needed), format_exact(needed))));
    EXPECT_THAT(run.err, ::testing::HasSubstr("\nfits  budget "));
  }
  const Ended larger = snug(train + " --budget 1GiB --json");
  EXPECT_EQ(lines_of(larger)[0]["planned_bytes"], needed) << "nothing is recomputed without need";
  EXPECT_THAT(larger.err, ::testing::Not(::testing::HasSubstr("chosen")));
}

TEST_F(CliTechniques, ChosenPolicyIsInPlanJson) {
  const auto plan = [&](const std::string& options) {
    return nlohmann::json::parse(snug("plan tiny --seq 16 --json" + options).out);
  };
  const auto plain = plan("");
  EXPECT_TRUE(plain["chosen_recompute"].is_null());
  const auto chosen = plan(" --budget 600KB")["chosen_recompute"];
  EXPECT_EQ(chosen["needed_without_bytes"], plain["arena_bytes"]);
  EXPECT_GT(chosen["extra_time"], 0);
  EXPECT_LT(chosen["extra_time"], 1);
  EXPECT_THAT(chosen["policy"].get<std::string>(), ::testing::StartsWith("layer"));
}

TEST_F(CliTechniques, ChosenConfigurationRunsAgain) {
  const std::string train = kTiny + "--batch 8 --steps 2 --json";
  const Ended first = snug(train + " --budget 600KB --out o");
  ASSERT_EQ(first.code, 0) << first.err;
  const Ended again = snug("train --config o/run.toml --overwrite");
  ASSERT_EQ(again.code, 0) << again.err;
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(lines_of(again)[i]["loss"], lines_of(first)[i]["loss"]);
    EXPECT_EQ(lines_of(again)[i]["peak_bytes"], lines_of(first)[i]["peak_bytes"]);
  }
}

TEST_F(CliTechniques, NewBudgetOverridesSavedChoice) {
  const auto plain = nlohmann::json::parse(snug("plan tiny --seq 16 --batch 8 --json").out);
  ASSERT_EQ(snug(kTiny + "--batch 8 --steps 1 --budget 600KB --out o").code, 0);
  const Ended larger = snug("train --config o/run.toml --budget 1GiB --json --overwrite");
  ASSERT_EQ(larger.code, 0) << larger.err;
  EXPECT_EQ(lines_of(larger)[0]["planned_bytes"], plain["arena_bytes"]);
}

TEST_F(CliTechniques, EvaluationLeavesTrainingUnchanged) {
  const std::string train = kTiny + "--batch 2 --steps 3 --lr 1e-2 ";
  for (const std::string technique :
       {"--precision bf16", "--precision bf16 --master none", "--precision fp16", "--compress int8",
        "--update-in-backward --clip 0", "--recompute full",
        "--recompute attention --attention standard", "--attention chunked:8",
        "--accum 2 --loss whole", "--optimizer adamw8bit", "--optimizer sgd --state-dtype bf16",
        kAllTogether}) {
    SCOPED_TRACE(technique);
    const Ended held_out = snug(train + technique + " --holdout 0.1 --eval-every 1 --json");
    expect_plan_is_run(held_out);
    const auto evals = eval_losses(held_out);
    ASSERT_EQ(evals.size(), 4U);
    EXPECT_NEAR(evals.front(), std::log(256), 0.1);
    EXPECT_LT(evals.back(), evals.front() - 0.01);
    EXPECT_EQ(losses(train + technique + " --eval-data text.txt --eval-every 1"),
              losses(train + technique));
  }
}

TEST_F(CliTechniques, TwoByteModelIsSavedAndLoadedAsSuch) {
  const std::string bf16 = " --seq 16 --eval-data text.txt --json --precision bf16";
  const Ended first =
      snug("train tiny --data text.txt --steps 3 --lr 1e-2 --master none --out a" + bf16);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(dtypes_in("a"), std::set<std::string>{"BF16"});
  EXPECT_EQ(dtype_in_config("a"), "bfloat16");

  const std::string again = "train a --data text.txt --steps 1 ";
  const Ended second = snug(again + "--master none --out b" + bf16);
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(eval_losses(second).front(), eval_losses(first).back()) << "the same bits were loaded";
  EXPECT_EQ(dtypes_in("b"), std::set<std::string>{"BF16"});

  const Ended with_master = snug(again + "--out c" + bf16);
  ASSERT_EQ(with_master.code, 0) << with_master.err;
  EXPECT_EQ(eval_losses(with_master).front(), eval_losses(first).back());
  EXPECT_EQ(dtypes_in("c"), std::set<std::string>{"F32"}) << "the master is what was learnt";
  EXPECT_EQ(dtype_in_config("c"), "float32");
}

TEST_F(CliTechniques, TwoByteModelTrainsInAnyPrecision) {
  ASSERT_EQ(snug(kTiny + "--steps 1 --precision bf16 --master none --out a").code, 0);
  for (const std::string precision : {"fp32", "bf16", "fp16"}) {
    const Ended run = snug(
        "train a --data text.txt --seq 16 --steps 1 --overwrite --out b --precision " + precision);
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_EQ(dtypes_in("b"), std::set<std::string>{"F32"}) << precision;
    EXPECT_EQ(dtype_in_config("b"), "float32") << precision;
  }
  ASSERT_EQ(snug(kTiny + "--steps 1 --precision fp16 --master none --out d").code, 0);
  EXPECT_EQ(dtypes_in("d"), std::set<std::string>{"F16"});
  EXPECT_EQ(dtype_in_config("d"), "float16");
}

}  // namespace
}  // namespace snug

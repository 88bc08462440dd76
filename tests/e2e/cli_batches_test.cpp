// Sequences per step as typed: short last micro-batches count as what they hold, and the learning
// rate follows the size of a step.
#include "cli_fixture.h"
#include "support/small_run.h"

namespace snug {
namespace {

const std::string kOneStep = "train tiny --data text.txt --seq 16 --steps 1 --json ";

class CliBatches : public Cli {
 protected:
  nlohmann::json first_step(const std::string& options) {
    const Ended run = snug(kOneStep + options);
    EXPECT_EQ(run.code, 0) << run.err;
    return run.code == 0 ? lines_of(run)[0] : nlohmann::json();
  }
};

// Masks are keyed by the sample, so that dropout too is the same however a step is cut.
TEST_F(CliBatches, StepIsSameForAnySplit) {
  for (const std::string dropout : {"0", "0.2"}) {
    const auto whole = first_step("--batch 10 --dropout " + dropout);
    const double loss = whole["loss"];
    const double norm = whole["grad_norm"];
    for (const std::string cut : {"--batch 4", "--batch 2", "--batch 3", "--batch 16",
                                  "--batch 4 --update-in-backward --clip 0",
                                  "--batch 3 --recompute full --attention standard"}) {
      SCOPED_TRACE(cut + " --dropout " + dropout);
      const auto step = first_step(cut + " --global-batch 10 --dropout " + dropout);
      EXPECT_NEAR(step["loss"], loss, 1e-6 * loss);
      EXPECT_NEAR(step["grad_norm"], norm, 1e-5 * norm);
      EXPECT_EQ(step["tokens"], 160);
      EXPECT_EQ(step["peak_bytes"], step["planned_bytes"]);
    }
  }
  EXPECT_NE(first_step("--batch 10")["loss"], first_step("--batch 10 --dropout 0.2")["loss"]);
}

TEST_F(CliBatches, EveryFamilyAllowsShortMicroBatches) {
  const std::string parity = tests_dir() + "/parity/";
  for (const std::string& model :
       {parity + "bert --seq 16", parity + "gpt2 --seq 16", std::string("mlp:16x3")}) {
    SCOPED_TRACE(model);
    const std::string train = "train " + model + " --init scratch --steps 2 ";
    const auto whole = losses(train + "--batch 10");
    const auto cut = losses(train + "--batch 4 --global-batch 10");
    ASSERT_EQ(cut.size(), 2U);
    EXPECT_NEAR(cut[0], whole[0], 1e-6 * whole[0]);
    EXPECT_NEAR(cut[1], whole[1], 1e-5 * whole[1]);
  }
}

// What pads a short micro-batch is no sample: the next step begins with the next one.
TEST_F(CliBatches, NoSampleIsSkippedOrTakenTwice) {
  const std::string train = "train tiny --data text.txt --seq 16 --steps 3 --no-shuffle ";
  const auto whole = losses(train + "--batch 5");
  const auto cut = losses(train + "--batch 3 --global-batch 5");
  ASSERT_EQ(cut.size(), 3U);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(cut[i], whole[i], 1e-5 * whole[i]) << "step " << i;
}

// A saved configuration names micro-batches as they were asked for, so that each can be changed.
TEST_F(CliBatches, SavedConfigurationAcceptsOtherMicroBatches) {
  const std::string train = "train tiny --data text.txt --seq 16 --steps 1 --out o ";
  const auto tokens = [&](const std::string& change) -> int64_t {
    const Ended run = snug("train --config o/run.toml --json --overwrite" + change);
    EXPECT_EQ(run.code, 0) << run.err;
    return run.code == 0 ? lines_of(run)[0]["tokens"].get<int64_t>() : 0;
  };
  ASSERT_EQ(snug(train + "--batch 4 --global-batch 10").code, 0);
  EXPECT_EQ(tokens(""), 160);
  EXPECT_EQ(tokens(" --batch 3"), 160);
  ASSERT_EQ(snug(train + "--batch 4 --accum 2 --overwrite").code, 0);
  EXPECT_EQ(tokens(" --accum 3"), 192);
}

// Options implied by precision and optimizer follow a change on the command line.
TEST_F(CliBatches, SavedConfigurationAcceptsOtherPrecision) {
  ASSERT_EQ(snug("train tiny --data text.txt --seq 16 --batch 2 --steps 1 --out o").code, 0);
  const Ended run =
      snug("train --config o/run.toml --precision fp16 --optimizer lion --json --overwrite");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(lines_of(run)[0]["loss_scale"], 65536);
  const Ended plan = snug("plan --config o/run.toml --precision fp16 --optimizer lion --json");
  const auto recipe = nlohmann::json::parse(plan.out)["recipe"];
  EXPECT_EQ(recipe["grad-dtype"], "fp16");
  EXPECT_EQ(recipe["beta2"], 0.99);
}

// Advice recounts the micro-batches of a global batch.
TEST_F(CliBatches, BatchAdviceHoldsWithGlobalBatch) {
  const std::string plan = "plan tiny --seq 16 --batch 8 --accum 2 --global-batch 16 ";
  const auto small = nlohmann::json::parse(
      snug("plan tiny --seq 16 --batch 2 --global-batch 16 --recompute none --json").out);
  const std::string budget =
      fmt::format("--recompute none --budget {} ", small["arena_bytes"].get<int64_t>() * 21 / 20);
  const Ended refused = snug(plan + budget + "--json");
  ASSERT_EQ(refused.code, 3) << refused.err;
  std::string batch;
  const auto report = nlohmann::json::parse(refused.out);
  for (const auto& advice : report["advice"]) {
    const std::string change = advice["change"];
    if (change.starts_with("--batch")) batch = change;
  }
  ASSERT_NE(batch.find("--accum"), std::string::npos) << refused.out;
  const Ended pasted = snug(plan + budget + batch);
  EXPECT_EQ(pasted.code, 0) << pasted.err;
}

TEST_F(CliBatches, LearningRateFollowsSequencesPerStep) {
  const std::string train = "--lr 0.001 --lr-schedule constant --base-batch 2";
  const auto lr = [&](const std::string& options) -> double {
    return first_step(train + " " + options)["lr"];
  };
  EXPECT_DOUBLE_EQ(lr("--batch 8 --lr-scale linear"), 0.004);
  EXPECT_DOUBLE_EQ(lr("--batch 8 --lr-scale sqrt"), 0.002);
  EXPECT_DOUBLE_EQ(lr("--batch 8"), 0.001);
  EXPECT_DOUBLE_EQ(lr("--batch 1 --accum 8 --lr-scale linear"), 0.004);
  EXPECT_DOUBLE_EQ(lr("--batch 3 --global-batch 8 --lr-scale sqrt"), 0.002);
  EXPECT_DOUBLE_EQ(lr("--batch 1 --lr-scale linear"), 0.0005);
  const Ended run =
      snug("train tiny --data text.txt --seq 16 --steps 1 --batch 8 --lr-scale linear " + train);
  EXPECT_THAT(run.out, ::testing::HasSubstr(" lr 4.00e-03 ")) << "people see it too";
}

}  // namespace
}  // namespace snug

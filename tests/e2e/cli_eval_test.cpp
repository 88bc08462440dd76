// `snug eval`: the loss over all of the data, by a plan of the forward pass alone.
#include <gmock/gmock.h>

#include <cmath>

#include "e2e/cli_fixture.h"

namespace snug {
namespace {

class CliEval : public Cli {
 protected:
  CliEval() {
    const Ended run = snug(
        "train tiny --data text.txt --batch 4 --seq 16 --steps 12 --lr 1e-2 --out trained "
        "--eval-data text.txt --eval-every 12 --eval-batches 23 --device cpu --json");
    EXPECT_EQ(run.code, 0) << run.err;
    held_out_ = eval_losses(run).back();
  }

  nlohmann::json eval(const std::string& more = "--batch 8") {
    const Ended run = snug("eval trained --data text.txt --seq 16 --device cpu --json " + more);
    EXPECT_EQ(run.code, 0) << run.err;
    return run.code == 0 ? nlohmann::json::parse(run.out) : nlohmann::json::object();
  }

  double held_out_ = 0;  // of 23 batches of 4 windows of the same text
};

// The text is 90 windows of 16 and their targets. Training's own evaluation goes over 92: the first
// two again.
TEST_F(CliEval, EveryWindowCountsOnceForAnyBatch) {
  const nlohmann::json whole = eval();
  const int64_t windows = whole["windows"];
  ASSERT_EQ(windows, 90);
  EXPECT_EQ(whole["tokens"], windows * 16);
  const double loss = whole["loss"];
  for (const char* batch : {"--batch 1", "--batch 5", "--batch 100"}) {
    const nlohmann::json other = eval(batch);
    EXPECT_EQ(other["tokens"], whole["tokens"]) << batch;
    EXPECT_NEAR(other["loss"], loss, 1e-6 * loss) << batch;
  }
  EXPECT_DOUBLE_EQ(whole["perplexity"], std::exp(loss));
  EXPECT_NEAR(whole["bits_per_byte"], loss / std::log(2.0), 1e-12);

  write("first.txt", read_file(dir_ / "text.txt").substr(0, 2 * 16 + 1));
  const Ended first = snug("eval trained --data first.txt --seq 16 --device cpu --json");
  ASSERT_EQ(first.code, 0) << first.err;
  const nlohmann::json again = nlohmann::json::parse(first.out);
  ASSERT_EQ(again["windows"], 2);
  const double both = (90 * loss + 2 * again["loss"].get<double>()) / 92;
  EXPECT_NEAR(both, held_out_, 1e-5 * held_out_) << "as training's own evaluation";
}

TEST_F(CliEval, PlansTheForwardPassAlone) {
  const nlohmann::json report = eval("--batch 2");
  EXPECT_EQ(report["planned_bytes"], report["peak_bytes"]);
  const Ended plan = snug("plan tiny --batch 2 --seq 16 --device cpu --json");
  const nlohmann::json training = nlohmann::json::parse(plan.out);
  const int64_t params = training["params"];
  EXPECT_LT(report["planned_bytes"].get<int64_t>(), 2 * 4 * params) << "no gradients, no states";
}

TEST_F(CliEval, BudgetHalvesOpenBatch) {
  const nlohmann::json open = eval("--threads 1");
  const int64_t needed = open["planned_bytes"];
  const nlohmann::json within = eval("--budget " + std::to_string(needed - 1));
  EXPECT_LT(within["planned_bytes"], needed);
  EXPECT_NEAR(within["loss"], open["loss"].get<double>(), 1e-5);
  const std::string budget = " --budget " + std::to_string(needed - 1);
  expect_refused("eval trained --data text.txt --seq 16 --device cpu --batch 8" + budget,
                 ExitCode::does_not_fit, "evaluation of trained at --batch 8 --seq 16 needs",
                 "it would fit with --batch 4 (");
  expect_refused("eval trained --data text.txt --seq 16 --device cpu --budget 1KiB",
                 ExitCode::does_not_fit, "evaluation of trained at --batch 1 --seq 16",
                 "a larger --budget");
}

TEST_F(CliEval, OtherPlansGiveTheSameLoss) {
  const double loss = eval()["loss"];
  EXPECT_EQ(eval("--offload params")["loss"], loss) << "offload changes no bit";
  EXPECT_NEAR(eval("--attention standard --loss whole")["loss"], loss, 1e-5);
  EXPECT_NEAR(eval("--precision bf16")["loss"], loss, 3e-2);
}

TEST_F(CliEval, Refusals) {
  expect_refused("eval tiny --data text.txt", kUsage, "'tiny' holds no weights",
                 "the --out of `snug train`");
  expect_refused("eval trained", kUsage, "snug eval needs --data");
  expect_refused("eval trained --data synthetic", kUsage, "has no end");
  expect_refused("eval trained --data none.txt", kBadInput, "none.txt");
  write("empty.txt", "");
  expect_refused("eval trained --data empty.txt", kBadInput, "empty.txt is empty");
  write("short.txt", "abc");
  expect_refused("eval trained --data short.txt --seq 16", kBadInput, "3 tokens are fewer than",
                 "--seq");
  expect_refused("eval trained --data text.txt --device null", kUsage,
                 "the null device computes nothing");
  expect_refused("eval trained --data text.txt --lr 3", kUsage, "has no option '--lr'");
  expect_refused("eval", kUsage, "needs a MODEL");
}

}  // namespace
}  // namespace snug

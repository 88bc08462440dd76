// Numbers that leave the finite ones: a loss that becomes nan is traced to its layer and the last
// good state is kept; steps that overflow in fp16 are skipped, reported, and recovered from.
#include <cmath>
#include <cstring>
#include <limits>

#include "cli_fixture.h"
#include "damage.h"
#include "formats/safetensors.h"

namespace snug {
namespace {

const std::string kFinite = "train tiny --data text.txt --seq 16 --batch 4";
constexpr const char* kWeights = "/model.safetensors";

class CliNotFinite : public Cli {
 protected:
  std::string weights(const std::string& model) const {
    return read_file(dir_ / (model + kWeights));
  }

  // A trained model ("bad") with one number of one tensor replaced.
  void train_and_damage(const std::string& tensor, float number) {
    const Ended run = snug(kFinite + " --steps 1 --out bad");
    ASSERT_EQ(run.code, 0) << run.err;
    damage(dir_ / (std::string("bad") + kWeights), tensor, number);
  }

  void expect_all_finite(const std::string& model) const {
    const SafetensorsFile file(dir_ / (model + kWeights));
    for (const TensorEntry& tensor : file.tensors()) {
      ASSERT_EQ(tensor.dtype, Dtype::f32);
      const std::vector<std::byte> bytes = testing::bytes_of(tensor);
      for (size_t at = 0; at < bytes.size(); at += sizeof(float)) {
        float number = 0;
        std::memcpy(&number, bytes.data() + at, sizeof number);
        ASSERT_TRUE(std::isfinite(number)) << tensor.name;
      }
    }
  }
};

constexpr auto kDevice = static_cast<int>(ExitCode::device);

// The largest number is finite, and loads; what it is multiplied by makes an infinity of it.
constexpr float kHuge = std::numeric_limits<float>::max();

TEST_F(CliNotFinite, NonFiniteWeightsAreRefused) {
  train_and_damage("model.layers.1.mlp.down_proj.weight", NAN);
  for (const std::string technique : {"", " --precision bf16", " --precision fp16"}) {
    SCOPED_TRACE(technique);
    const Ended run = snug("train bad --data text.txt --seq 16 --batch 4 --out o" + technique);
    EXPECT_EQ(run.code, static_cast<int>(ExitCode::bad_input));
    EXPECT_THAT(run.err,
                ::testing::HasSubstr("snug: bad: tensor model.layers.1.mlp.down_proj.weight holds "
                                     "nan at element 0\n"));
    EXPECT_EQ(run.out, "") << "no step";
    EXPECT_FALSE(std::filesystem::exists(dir_ / "o")) << "nothing is saved";
  }
}

TEST_F(CliNotFinite, NanLossIsTracedToItsLayer) {
  train_and_damage("model.layers.1.post_attention_layernorm.weight", kHuge);
  for (const std::string technique :
       {"", " --update-in-backward --clip 0", " --recompute full --accum 2 --compress int8",
        " --optimizer adamw8bit", " --precision bf16", " --precision fp16"}) {
    SCOPED_TRACE(technique);
    const Ended run = snug(
        "train bad --data text.txt --seq 16 --batch 4 --steps 3 --overwrite --out o" + technique);
    EXPECT_EQ(run.code, kDevice);
    EXPECT_THAT(run.err,
                ::testing::ContainsRegex(
                    "\nsnug: the loss is nan at step 1; it first appears in layer 1, [a-z_]+ "
                    "'layers.1.mlp.norm' in micro_first(, whose input 'layers.1.mlp.norm.weight"
                    "(.bf16|.f16)' is not finite to begin with)?; the parameters are as they were "
                    "before the step and saved in o\n      [^\n]+\n$"));
    EXPECT_EQ(weights("o"), weights("bad")) << "the state from before";
  }
}

// Only the second rank reads the token whose embedding is not finite in fp16; the others have it from
// there.
TEST_F(CliNotFinite, CausingRankNamesIt) {
  train_and_damage("model.embed_tokens.weight", kHuge);
  std::string text(100, 'a');
  text[24] = 0;
  write("one.txt", text);
  const Ended run = snug(
      "train bad --data one.txt --bytes --no-shuffle --seq 16 --batch 1 --steps 1 --ranks 3 "
      "--precision fp16");
  EXPECT_EQ(run.code, kDevice);
  EXPECT_THAT(run.err, ::testing::ContainsRegex("it first appears in outside the layers, embedding "
                                                "'[a-z.]+' in micro_first[^;]*, on rank 1;"));
}

TEST_F(CliNotFinite, InfinityIsFoundAtFirstOp) {
  train_and_damage("model.layers.1.input_layernorm.weight", kHuge);
  const Ended run = snug("train bad --data text.txt --seq 16 --batch 4 --out o --json");
  EXPECT_EQ(run.code, kDevice);
  EXPECT_THAT(run.err, ::testing::HasSubstr("at step 1; it first appears in layer 1, "));
  EXPECT_THAT(run.err, ::testing::HasSubstr("'layers.1.attn.norm' in micro_first"));
  EXPECT_EQ(weights("o"), weights("bad"));
  ASSERT_EQ(lines_of(run).size(), 1U) << "the step is in the log";
  EXPECT_TRUE(lines_of(run)[0]["loss"].is_null());
}

TEST_F(CliNotFinite, RunRollsBackAndSkipsBadData) {
  const std::string wild = kFinite +
                           " --device cpu --precision fp16 --optimizer sgd --clip 0 --lr 1000 "
                           "--lr-schedule constant --steps 30 --save-every 1 --out o --on-nan ";
  const Ended run = snug(wild + "rollback:2");
  EXPECT_EQ(run.code, kDevice);
  EXPECT_THAT(run.err, ::testing::HasSubstr(
                           "the loss is nan at step 2: back to step 1, without samples 4 to 7\n"));
  size_t back = 0;
  for (const std::string& line : split(run.err, '\n'))
    if (line.find(": back to step ") != std::string::npos) ++back;
  EXPECT_EQ(back, 2U);
  EXPECT_THAT(run.err, ::testing::HasSubstr("without samples 8 to 11\n")) << "which came next";
  EXPECT_THAT(run.err, ::testing::HasSubstr("; it first appears in layer ")) << "then it stops";

  const Ended skipped = snug(wild + "skip --overwrite --steps 4");
  EXPECT_EQ(skipped.code, 0) << skipped.err;
  EXPECT_THAT(skipped.err, ::testing::HasSubstr("at step 2: its update is left out\n"));
  expect_refused(kFinite + " --on-nan rollback", kUsage, "no checkpoint to go back to",
                 "--save-every");
  expect_refused(kFinite + " --on-nan never", kUsage, "--on-nan 'never' is not stop, skip,");
}

// One good step with a rate far too large; in the second, fp16 overflows in the forward pass.
TEST_F(CliNotFinite, FailedRunKeepsLastGoodState) {
  const std::string wild =
      kFinite + " --precision fp16 --optimizer sgd --clip 0 --lr 1000 --lr-schedule constant";
  const Ended run = snug(wild + " --steps 30 --out o");
  EXPECT_EQ(run.code, kDevice);
  EXPECT_THAT(run.err,
              ::testing::HasSubstr("the loss is nan at step 2; it first appears in layer "));
  EXPECT_THAT(run.err, ::testing::HasSubstr("fp16 ends at 65504: try --precision bf16"));
  expect_all_finite("o");
  ASSERT_EQ(snug(wild + " --steps 1 --out one").code, 0);
  EXPECT_EQ(weights("o"), weights("one")) << "the parameters after the last good step";
}

// Four windows are one step's data, so that losses differ only where parameters do.
TEST_F(CliNotFinite, OverflowingStepsAreSkippedWhileScaleShrinks) {
  write("text.txt", std::string(65, 'a') + "b");
  const std::string train =
      kFinite + " --no-shuffle --precision fp16 --lr 1e-2 --loss-scale dynamic:1e9 --steps 30";
  const Ended run = snug(train + " --json");
  ASSERT_EQ(run.code, 0) << run.err;
  const auto lines = lines_of(run);
  size_t skipped = 0;
  while (skipped < lines.size() && lines[skipped]["skipped"]) ++skipped;
  ASSERT_GT(skipped, 2U);
  ASSERT_LT(skipped, 20U);
  for (size_t i = 0; i < skipped; ++i) {
    EXPECT_EQ(lines[i]["loss_scale"], 1e9 / std::exp2(i + 1)) << "after the step";
    EXPECT_EQ(lines[i]["loss"], lines[0]["loss"]) << "no parameter has moved";
    EXPECT_TRUE(lines[i]["grad_norm"].is_null());
  }
  EXPECT_EQ(lines[skipped]["loss"], lines[0]["loss"]) << "the first update comes after this loss";
  EXPECT_EQ(lines[skipped]["loss_scale"], lines[skipped - 1]["loss_scale"]);
  EXPECT_LT(lines.back()["loss"], lines[0]["loss"].get<double>() - 0.5) << "it learns";
  EXPECT_FALSE(lines.back()["skipped"]);

  const Ended text = snug(train);
  EXPECT_THAT(text.out, ::testing::ContainsRegex(
                            "step +1/30 [^\n]+ \\(skipped: the norm is not finite; loss scale now "
                            "500000000\\)\n"));
  EXPECT_THAT(split(trim(text.out), '\n').back(), ::testing::Not(::testing::HasSubstr("skipped")));
}

TEST_F(CliNotFinite, FixedScaleThatIsTooLargeStopsRun) {
  const Ended run = snug(kFinite + " --precision fp16 --loss-scale 1e9 --steps 100 --out o");
  EXPECT_EQ(run.code, kDevice);
  EXPECT_THAT(run.err, ::testing::HasSubstr("for 20 steps in a row, until step 20: no update was "
                                            "made in them; the parameters are saved in o\n"));
  EXPECT_THAT(run.err, ::testing::HasSubstr("try a smaller --loss-scale, or --precision bf16\n"));
  expect_all_finite("o");
  EXPECT_THAT(
      snug(kFinite + " --precision fp16 --loss-scale 1e9 --update-in-backward --clip 0").err,
      ::testing::HasSubstr(": no parameter with such a gradient was updated in them\n"));
}

// In fp32 a wild rate makes gradients overflow while the loss stays finite: no scale helps there.
TEST_F(CliNotFinite, MinimalScaleStopsRun) {
  const Ended run = snug(kFinite +
                         " --optimizer sgd --clip 0 --lr 1000 --loss-scale dynamic:4 --steps 100 "
                         "--out o --json");
  EXPECT_EQ(run.code, kDevice);
  EXPECT_THAT(run.err, ::testing::HasSubstr("for 20 steps in a row"));
  const auto lines = lines_of(run);
  EXPECT_EQ(lines.back()["loss_scale"], 1);
  size_t skipped = 0;
  while (lines[lines.size() - 1 - skipped]["skipped"]) ++skipped;
  EXPECT_EQ(skipped, 21U) << "one to reach the minimum, twenty there";
  expect_all_finite("o");
}

}  // namespace
}  // namespace snug

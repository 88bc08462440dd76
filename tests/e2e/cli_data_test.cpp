// Where tokens and weights come from: every run reports it, and never substitutes silently.
#include <sys/wait.h>

#include <array>

#include "cli_fixture.h"

namespace snug {
namespace {

class CliData : public Cli {
 protected:
  // 300 tokens below 256, of `bytes` bytes each and no header.
  static std::string tokens_of(int bytes) {
    std::string out;
    for (int i = 0; i < 300; ++i) {
      out += static_cast<char>(i * 31 % 251);
      out.append(static_cast<size_t>(bytes) - 1, '\0');
    }
    return out;
  }

  const std::string train_ = "train tiny --seq 16 --batch 2 --steps 1 --data ";
};

TEST_F(CliData, RunsReportSourceOfWeights) {
  const Ended first = snug(train_ + "text.txt --seed 7 --out saved");
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.err, ::testing::HasSubstr("weights: random, seed 7\n"));
  const Ended second = snug("train saved --seq 16 --steps 1 --data text.txt");
  EXPECT_THAT(second.err, ::testing::HasSubstr("weights: loaded from saved\n"));
  const Ended third = snug("train saved --seq 16 --steps 1 --data text.txt --init scratch");
  EXPECT_THAT(third.err, ::testing::HasSubstr("weights: random, seed 1\n"));
}

TEST_F(CliData, UnreadableWeightsAreRefused) {
  const std::string train = "train other --seq 16 --batch 2 --steps 1 --data text.txt";
  for (const std::string file : {"pytorch_model.bin", "model.gguf", "adapter_model.safetensors",
                                 "model-00001-of-00002.safetensors"}) {
    write("other/config.json", tiny_config().dump());
    write("other/" + file, "weights");
    expect_refused(train, kBadInput, "other has weights that Snug cannot read: " + file,
                   "--init scratch");
    EXPECT_EQ(snug(train + " --init scratch").code, 0);
    EXPECT_EQ(snug("plan other --seq 16").code, 0) << "a plan needs no weights";
    std::filesystem::remove_all(dir_ / "other");
  }
}

TEST_F(CliData, LoadedWeightsHaveNoDefaultData) {
  EXPECT_EQ(snug(train_ + "synthetic --out saved").code, 0);
  expect_refused("train saved --seq 16 --steps 1", kUsage, "no --data says what to train them on",
                 "--data synthetic");
  EXPECT_EQ(snug("train saved --seq 16 --steps 1 --data synthetic").code, 0);
  EXPECT_EQ(snug("train tiny --seq 16 --steps 1").code, 0) << "random weights may have random data";
}

TEST_F(CliData, TextWithTokenizerIsRefused) {
  write("tiny/tokenizer.json", "{}");
  expect_refused(train_ + "text.txt", kBadInput, "tokenizer.json: has no part 'model'");
  EXPECT_EQ(snug(train_ + "text.txt --bytes").code, 0);
  std::filesystem::remove(dir_ / "tiny/tokenizer.json");
  for (const std::string file : {"tokenizer.model", "vocab.json"}) {
    write("tiny/" + file, "{}");
    expect_refused(train_ + "text.txt", kUsage, "text.txt is text, and the model has a tokenizer",
                   "--bytes");
    expect_refused(train_ + "synthetic --eval-data text.txt", kUsage, "has a tokenizer");
    const Ended run = snug(train_ + "text.txt --bytes");
    EXPECT_EQ(run.code, 0) << run.err;
    write("tokens.bin", tokens_of(2));
    EXPECT_EQ(snug(train_ + "tokens.bin").code, 0);
    std::filesystem::remove(dir_ / "tiny" / file);
  }
}

TEST_F(CliData, WideTokensWithoutAHeader) {
  write("wide.bin", tokens_of(4));
  write("narrow.bin", tokens_of(2));
  expect_refused(train_ + "wide.bin", kBadInput, "wide.bin has no header and looks like 32-bit",
                 "--token-bytes 4");
  const std::vector<double> expected = losses(train_ + "narrow.bin");
  EXPECT_EQ(losses(train_ + "wide.bin --token-bytes 4"), expected) << "the same tokens";
  EXPECT_EQ(losses(train_ + "narrow.bin --token-bytes 2"), expected);
  expect_refused(train_ + "wide.bin --token-bytes 3", kUsage, "--token-bytes is 3");
}

TEST_F(CliData, MaskOfTokenFileIsHonoured) {
  constexpr int32_t kTokens = 300;
  const std::array<int32_t, 5> fields{2, 2, kTokens, 256, 1};
  std::string file = "BIN.TOK\n";
  file.append(reinterpret_cast<const char*>(fields.data()), sizeof fields);
  file.resize(1024, '\0');
  file += tokens_of(2);
  std::string mask((kTokens + 7) / 8, '\0');
  const auto masked = [&] { return file + mask; };
  write("none.bin", masked());
  expect_refused(train_ + "none.bin", kBadInput, "by its mask no token is to be learned",
                 "--loss-on all");
  mask[0] = 0x0e;  // tokens 1, 2 and 3
  mask[5] = 0x01;  // and 40
  write("some.bin", masked());
  const Ended run = snug(train_ + "some.bin");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, ::testing::HasSubstr("= 2 windows of 16, 4 tokens to learn\n"));
  write("plain.bin", tokens_of(2));
  EXPECT_EQ(losses(train_ + "some.bin --loss-on all"), losses(train_ + "plain.bin"));
  EXPECT_NE(losses(train_ + "some.bin"), losses(train_ + "plain.bin"));
}

TEST_F(CliData, IgnoredOptionsAreRefused) {
  expect_refused(train_ + "text.txt --eval-every 2", kUsage, "there is no held-out data",
                 "--holdout");
  expect_refused(train_ + "text.txt --holdout 0.1 --eval-data text.txt", kUsage,
                 "--holdout 0.1 and --eval-data text.txt");
  expect_refused("train tiny --data text.txt --out ", kUsage, "--out is empty");
}

TEST_F(CliData, TruncationDuringTrainingIsReported) {
  std::string many;
  for (int i = 0; i < 200; ++i) many += tokens_of(2);
  write("tokens.bin", many);
  const auto truncate = [&](pid_t child) {
    std::filesystem::resize_file(dir_ / "tokens.bin", 10);
    siginfo_t ended{};
    ::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT);
  };
  const Ended run = snug("train tiny --seq 16 --batch 2 --steps 100000 --data tokens.bin --json",
                         {.interrupt_after = "\"step\":3,", .before_interrupt = truncate});
  EXPECT_EQ(run.code, static_cast<int>(kBadInput)) << run.err;
  EXPECT_THAT(run.err, ::testing::HasSubstr("tokens.bin had 120000 bytes when it was opened"));
}

}  // namespace
}  // namespace snug

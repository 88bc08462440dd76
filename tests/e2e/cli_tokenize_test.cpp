// Text for a model with a tokenizer.json: `snug tokenize`, and train, which tokenizes once.
#include <gmock/gmock.h>

#include "e2e/cli_fixture.h"
#include "formats/token_file.h"

namespace snug {
namespace {

// A vocabulary of 296: letters, a few merges, and all bytes.
const std::string kTokenizerText =
    read_file(std::filesystem::path(SNUG_TEST_DIR) / "tokenizer.json");

class CliTokenize : public Cli {
 protected:
  CliTokenize() { write_model("model", 296); }

  void write_model(const std::string& name, int rows) {
    nlohmann::json config = tiny_config();
    config["vocab_size"] = rows;
    write(name + "/config.json", config.dump());
    write(name + "/tokenizer.json", kTokenizerText);
  }
  std::string train_ = "train model --batch 2 --seq 16 --steps 2 --device cpu --data ";
};

TEST_F(CliTokenize, WrittenTokensAreReadByTrain) {
  write("texts/a.txt", "the cat");
  write("texts/b.txt", "on a mat");
  const Ended run = snug("tokenize model --data texts -o tokens.bin --json");
  ASSERT_EQ(run.code, 0) << run.err;
  const nlohmann::json said = nlohmann::json::parse(run.out);
  EXPECT_EQ(said["documents"], 2);
  EXPECT_EQ(said["vocabulary"], 296);
  const TokenFile file = TokenFile::open(dir_ / "tokens.bin");
  EXPECT_EQ(file.size(), said["tokens"]);
  EXPECT_EQ(file.vocabulary(), 296);
  std::vector<int32_t> ids(static_cast<size_t>(file.size()));
  file.copy(0, ids);
  EXPECT_EQ(std::ranges::count(ids, 1), 1) << "one end of text between two documents";

  EXPECT_EQ(snug("tokenize model --data text.txt -o long.bin").code, 0);
  EXPECT_EQ(snug(train_ + "long.bin").code, 0);
}

TEST_F(CliTokenize, TrainTokenizesOnce) {
  const Ended first = snug(train_ + "text.txt --json");
  ASSERT_EQ(first.code, 0) << first.err;
  const auto names = testing::names_in(dir_ / ".snug-tokens");
  ASSERT_EQ(names.size(), 1U);
  EXPECT_THAT(names[0], ::testing::StartsWith("text.txt-"));
  const auto written = std::filesystem::last_write_time(dir_ / ".snug-tokens" / names[0]);
  EXPECT_EQ(snug(train_ + "text.txt").code, 0);
  EXPECT_EQ(std::filesystem::last_write_time(dir_ / ".snug-tokens" / names[0]), written);

  write("text.txt", read_file(dir_ / "text.txt") + "more");
  EXPECT_EQ(snug(train_ + "text.txt --cache other").code, 0);
  EXPECT_EQ(testing::names_in(dir_ / ".snug-tokens"), names);
  EXPECT_THAT(testing::names_in(dir_ / "other"), ::testing::Not(::testing::Contains(names[0])));
}

TEST_F(CliTokenize, TokenizerOfAnotherModelIsRefused) {
  write_model("small", 200);
  expect_refused("tokenize small --data text.txt -o t.bin", kBadInput,
                 "tokenizer.json has 296 ids, and the model's embedding has 200 rows");
  expect_refused("train small --seq 16 --steps 1 --data text.txt", kBadInput,
                 "has 296 ids, and the model's embedding has 200 rows");
  EXPECT_FALSE(std::filesystem::exists(dir_ / "t.bin"));
}

TEST_F(CliTokenize, Refusals) {
  expect_refused("tokenize model --data text.txt", kUsage, "snug tokenize needs -o FILE");
  expect_refused("tokenize model -o t.bin", kUsage, "snug tokenize needs --data");
  expect_refused("tokenize tiny --data text.txt -o t.bin", kBadInput,
                 "tiny holds no tokenizer.json");
  expect_refused("tokenize model --data none.txt -o t.bin", kBadInput, "none.txt");
  expect_refused("tokenize model --data text.txt -o t.bin --eot <nope>", kUsage,
                 "has no token '<nope>'");
  write("t.bin", "mine");
  expect_refused("tokenize model --data text.txt -o t.bin", kUsage, "t.bin exists", "--overwrite");
  EXPECT_EQ(snug("tokenize model --data text.txt -o t.bin --overwrite").code, 0);
}

}  // namespace
}  // namespace snug

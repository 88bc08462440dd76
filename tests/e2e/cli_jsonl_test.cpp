// JSONL: samples, prompts and conversations as data.
#include <gmock/gmock.h>

#include "e2e/cli_fixture.h"

namespace snug {
namespace {

using ::testing::HasSubstr;

class CliJsonl : public Cli {
 protected:
  CliJsonl() {
    nlohmann::json tokenizer =
        nlohmann::json::parse(read_file(std::filesystem::path(SNUG_TEST_DIR) / "tokenizer.json"));
    for (const auto& [id, content] : {std::pair{296, "<|im_start|>"}, {297, "<|im_end|>"}})
      tokenizer["added_tokens"].push_back({{"id", id},
                                           {"content", content},
                                           {"single_word", false},
                                           {"lstrip", false},
                                           {"rstrip", false},
                                           {"special", true},
                                           {"normalized", false}});
    nlohmann::json config = tiny_config();
    config["vocab_size"] = 298;
    write("model/config.json", config.dump());
    write("model/tokenizer.json", tokenizer.dump());
    std::string lines;
    for (int i = 0; i < 24; ++i) lines += text_line(3 + i % 7);
    write("texts.jsonl", lines);
  }

  // A line whose text has so many bytes.
  static std::string text_line(int bytes) {
    return nlohmann::json{{"text", std::string("the cat sat on a mat").substr(0, size_t(bytes))}}
               .dump() +
           "\n";
  }
  static std::string chat_line(const std::string& question, const std::string& answer) {
    return nlohmann::json{{"messages",
                           {{{"role", "user"}, {"content", question}},
                            {{"role", "assistant"}, {"content", answer}}}}}
               .dump() +
           "\n";
  }

  const std::string train_ = "train tiny --seq 16 --batch 2 --steps 3 --data ";
  const std::string chat_ = "train model --seq 64 --batch 2 --steps 2 --device cpu --data ";
};

TEST_F(CliJsonl, RowsReportTheirFill) {
  const Ended run = snug(train_ + "texts.jsonl");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("data: texts.jsonl (24 samples, 162 tokens) = 24 rows of 16, 36% "
                                 "filled, 138 tokens to learn\n"));
}

// Targets differ from micro-batch to micro-batch: only the count of the whole step makes them add up.
TEST_F(CliJsonl, StepIsMeanOverAllTargets) {
  const std::string run = "train tiny --seq 16 --steps 3 --data texts.jsonl --batch ";
  const std::vector<double> whole = losses(run + "6");
  for (const std::string parts : {"2 --accum 3", "1 --accum 6", "4 --global-batch 6"}) {
    const std::vector<double> got = losses(run + parts);
    ASSERT_EQ(got.size(), whole.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], whole[i], 1e-4) << parts;
  }
}

TEST_F(CliJsonl, PaddingCountsForNothing) {
  const std::string run = "train tiny --steps 3 --batch 4 --data texts.jsonl --seq ";
  const std::vector<double> narrow = losses(run + "12"), wide = losses(run + "40");
  ASSERT_EQ(narrow.size(), 3U);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(narrow[i], wide[i], 1e-4);
}

// A step over all rows learns from the same samples however they are packed, if none sees another.
TEST_F(CliJsonl, PackedSamplesLearnTheSame) {
  const std::string run = "train tiny --seq 16 --steps 4 --data texts.jsonl --batch ";
  const std::vector<double> apart = losses(run + "24");
  const Ended packed = snug(run + "1 --steps 1 --pack");
  ASSERT_EQ(packed.code, 0) << packed.err;
  const std::string said = packed.err.substr(packed.err.find("tokens) = ") + 10);
  const int rows = std::stoi(said);
  EXPECT_LT(rows, 12);
  const std::vector<double> together = losses(run + std::to_string(rows) + " --pack");
  ASSERT_EQ(together.size(), apart.size());
  for (size_t i = 0; i < apart.size(); ++i) EXPECT_NEAR(together[i], apart[i], 1e-4);
}

TEST_F(CliJsonl, EvaluationIsMeanOverTargets) {
  const std::string run = train_ + "texts.jsonl --holdout 0.5 --lr 0 --json --eval-batches ";
  const Ended once = snug(run + "6");
  ASSERT_EQ(once.code, 0) << once.err;
  const Ended wide = snug(
      "train tiny --seq 40 --batch 12 --steps 3 --lr 0 --data texts.jsonl "
      "--holdout 0.5 --eval-batches 1 --json");
  ASSERT_EQ(wide.code, 0) << wide.err;
  EXPECT_NEAR(eval_losses(once)[0], eval_losses(wide)[0], 1e-4);
}

TEST_F(CliJsonl, OnlyAnswersAreLearnedByDefault) {
  std::string lines;
  for (int i = 0; i < 4; ++i) lines += chat_line("the cat?", "on a mat");
  write("chat.jsonl", lines);
  const auto to_learn = [&](const std::string& line) {
    const Ended run = snug(line);
    EXPECT_EQ(run.code, 0) << run.err;
    const std::string said = run.err.substr(run.err.find("filled, ") + 8);
    return std::stoi(said);
  };
  const int answers = to_learn(chat_ + "chat.jsonl");
  const int all = to_learn(chat_ + "chat.jsonl --loss-on all");
  EXPECT_LT(answers * 2, all);
  EXPECT_EQ(testing::names_in(dir_ / ".snug-tokens").size(), 1U) << "the same samples";
}

TEST_F(CliJsonl, SamplesAreTokenizedOnce) {
  ASSERT_EQ(snug(train_ + "texts.jsonl").code, 0);
  const auto names = testing::names_in(dir_ / ".snug-tokens");
  ASSERT_EQ(names.size(), 1U);
  EXPECT_THAT(names[0], ::testing::MatchesRegex("texts.jsonl-[0-9a-f]+.samples"));
  const auto file = dir_ / ".snug-tokens" / names[0];
  const auto written = std::filesystem::last_write_time(file);
  EXPECT_EQ(snug("train tiny --seq 8 --batch 4 --steps 1 --long split --data texts.jsonl").code, 0);
  EXPECT_EQ(std::filesystem::last_write_time(file), written);
  const std::vector<double> direct = losses(train_ + file.string());
  EXPECT_EQ(direct, losses(train_ + "texts.jsonl")) << "a file of samples is data itself";
}

TEST_F(CliJsonl, DirectoryOfJsonl) {
  write("dir/a.jsonl", text_line(5));
  write("dir/deep/b.ndjson", text_line(6) + text_line(7));
  write("dir/README.md", "not a sample");
  const Ended run = snug(train_ + "dir");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("data: dir (3 samples, "));
}

TEST_F(CliJsonl, TokenizedSamplesAreReadByTrain) {
  write("chat.jsonl", chat_line("a", "b") + "{\"text\": \"\"}\n{\n" + chat_line("c", "the cat"));
  expect_refused("tokenize model --data chat.jsonl -o a.samples", kBadInput,
                 "chat.jsonl:3: not JSON");
  const Ended run = snug("tokenize model --data chat.jsonl -o a.samples --skip-bad 1 --json");
  ASSERT_EQ(run.code, 0) << run.err;
  const nlohmann::json said = nlohmann::json::parse(run.out);
  EXPECT_EQ(said["documents"], 2);
  EXPECT_EQ(said["empty"], 1);
  EXPECT_EQ(said["bad"], 1);
  EXPECT_EQ(losses(chat_ + "a.samples"), losses(chat_ + "chat.jsonl --skip-bad 1"));
  expect_refused("tokenize model --data text.txt -o b.bin --skip-bad 1", kUsage,
                 "--skip-bad 1 is for JSONL");
  EXPECT_EQ(snug("tokenize model --data chat.jsonl -o dir/a.bin --skip-bad 1").code, 4)
      << "the directory is not there";
  write("bins/x", "");
  ASSERT_EQ(snug("tokenize model --data chat.jsonl -o bins/a.bin --skip-bad 1").code, 0);
  expect_refused(chat_ + "bins", kBadInput, "a.bin holds samples, not a stream of tokens");
}

TEST_F(CliJsonl, BadLinesAreNamed) {
  write("bad.jsonl", text_line(5) + "\n{\"text\": 3}\n" + text_line(4) + "{\"a\": 1}\n");
  expect_refused(train_ + "bad.jsonl --cache .", kBadInput,
                 "bad.jsonl:3: 'text' is of type number, not a string", "--skip-bad N");
  expect_refused(train_ + "bad.jsonl --skip-bad 1 --cache .", kBadInput,
                 "bad.jsonl:5: it has neither 'text', nor 'prompt' and 'completion', nor "
                 "'messages'; 1 line is bad before it, and --skip-bad is 1");
  const Ended run = snug(train_ + "bad.jsonl --skip-bad 2");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("; 2 bad lines skipped\n"));
  const Ended again = snug(train_ + "bad.jsonl --skip-bad 1");
  EXPECT_EQ(again.code, static_cast<int>(kBadInput)) << "what is kept does not hide them";
  expect_refused(train_ + "bad.jsonl --skip-bad -1", kUsage, "skip-bad");
}

TEST_F(CliJsonl, EmptySamplesAreCounted) {
  write("some.jsonl", text_line(5) + "{\"text\": \"\"}\n{\"messages\": []}\n" + text_line(5));
  const Ended run = snug(train_ + "some.jsonl");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("; 2 empty samples skipped\n"));
  write("none.jsonl", "{\"text\": \"\"}\n\n");
  expect_refused(train_ + "none.jsonl --cache .", kBadInput,
                 "none.jsonl: no samples: 1 line, 1 of them empty, 0 bad");
}

TEST_F(CliJsonl, LongSamples) {
  const std::string run = "train tiny --seq 8 --batch 2 --steps 1 --data texts.jsonl";
  EXPECT_THAT(snug(run).err, HasSubstr("; 3 samples longer than 8 truncated"));
  EXPECT_THAT(snug(run + " --long split").err, HasSubstr("; 3 samples longer than 8 split"));
  expect_refused(run + " --long refuse", kBadInput,
                 "texts.jsonl: 3 of 24 samples are longer than --seq 8", "--long truncate");
  expect_refused(run + " --long cut", kUsage, "--long");
}

TEST_F(CliJsonl, Refusals) {
  write("chat.jsonl", chat_line("a", "b"));
  expect_refused(train_ + "chat.jsonl --cache .", kUsage,
                 "'messages' need a model with a tokenizer");
  write("model/tokenizer_config.json", R"({"chat_template": "{{ '<|user|>' }}"})");
  expect_refused(chat_ + "chat.jsonl --cache .", kUsage,
                 "model: its chat_template is not supported: it is not of the families",
                 "'prompt' and 'completion'");
  expect_refused(train_ + "text.txt --pack", kUsage, "--pack is for samples, and --data text.txt");
  expect_refused(train_ + "text.txt --loss-on all", kUsage, "--loss-on all is for samples");
  expect_refused(train_ + "text.txt --skip-bad 3", kUsage, "--skip-bad 3 is for samples");
  expect_refused(train_ + "texts.jsonl --loss-on prompt", kUsage, "--loss-on");
  write("old.samples", "SNUG.SMP" + std::string(100, 'x'));
  expect_refused(train_ + "old.samples", kBadInput, "old.samples: version ");
}

TEST_F(CliJsonl, ResumesAtSamePosition) {
  const std::string run = "train tiny --seq 16 --batch 2 --data texts.jsonl --steps ";
  const std::vector<double> whole = losses(run + "6");
  ASSERT_EQ(snug(run + "6 --save-every 3 --keep 9 --out run").code, 0);
  const Ended rest = snug("train --resume run/step-00000003 --out rest --json");
  ASSERT_EQ(rest.code, 0) << rest.err;
  std::vector<double> got;
  for (const auto& line : lines_of(rest))
    if (line.contains("loss")) got.push_back(line["loss"]);
  EXPECT_EQ(got, (std::vector<double>(whole.begin() + 3, whole.end())));
}

}  // namespace
}  // namespace snug

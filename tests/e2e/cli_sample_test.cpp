// `snug sample`: text from a model, token by token.
#include <gmock/gmock.h>

#include "e2e/cli_fixture.h"

namespace snug {
namespace {

using ::testing::HasSubstr;

const std::string kSampledTokenizer =
    read_file(std::filesystem::path(SNUG_TEST_DIR) / "tokenizer.json");

class CliSample : public Cli {
 protected:
  CliSample() {
    const Ended run = snug(
        "train tiny --data text.txt --batch 8 --seq 32 --steps 60 --lr 2e-2 --out trained --device "
        "cpu");
    EXPECT_EQ(run.code, 0) << run.err;
  }

  nlohmann::json sample(const std::string& more, const std::string& model = "trained") {
    const Ended run = snug("sample " + model + " --device cpu --json " + more);
    EXPECT_EQ(run.code, 0) << run.err;
    return run.code == 0 ? nlohmann::json::parse(run.out) : nlohmann::json::object();
  }

  // The trained weights under a config with other words.
  void copy_model(const std::string& to, const nlohmann::json& changes) {
    nlohmann::json config = nlohmann::json::parse(read_file(dir_ / "trained/config.json"));
    config.update(changes);
    write(to + "/config.json", config.dump());
    std::filesystem::copy_file(dir_ / "trained/model.safetensors", dir_ / to / "model.safetensors");
  }
};

TEST_F(CliSample, ContinuesTrainedText) {
  const nlohmann::json report = sample("--prompt the --temperature 0 --max-tokens 16");
  EXPECT_EQ(report["text"], " cat sat on mat ");
  EXPECT_EQ(report["prompt_ids"], (std::vector<int>{'t', 'h', 'e'}));
  EXPECT_EQ(report["ids"].size(), 16U);
  EXPECT_EQ(report["ended_by"], "max tokens");
  EXPECT_EQ(report["planned_bytes"], report["peak_bytes"]);

  const Ended streamed =
      snug("sample trained --device cpu --prompt the --temperature 0 --max-tokens 16");
  EXPECT_EQ(streamed.out, " cat sat on mat \n");
  EXPECT_THAT(streamed.err, HasSubstr("sampling, a prompt of 3 tokens and 16 more"));
  EXPECT_THAT(streamed.err, HasSubstr("ended by max tokens"));
}

TEST_F(CliSample, OtherPlansGiveTheSameTokens) {
  const nlohmann::json tokens = sample("--prompt the --temperature 0")["ids"];
  EXPECT_EQ(sample("--prompt the --temperature 0 --offload params")["ids"], tokens);
  EXPECT_EQ(sample("--prompt-ids 116,104,101 --top-k 1")["ids"], tokens);
  EXPECT_EQ(sample("--prompt the --temperature 0 --threads 1")["ids"], tokens);
}

TEST_F(CliSample, SameSeedGivesSameText) {
  const std::string line = "--prompt the --temperature 2 --top-p 0.95 --max-tokens 40 --seed ";
  EXPECT_EQ(sample(line + "3")["text"], sample(line + "3")["text"]);
  EXPECT_NE(sample(line + "3")["text"], sample(line + "4")["text"]);
}

TEST_F(CliSample, EndsAtATextOrAToken) {
  const nlohmann::json stopped = sample("--prompt the --temperature 0 --stop at_ --stop sat");
  EXPECT_EQ(stopped["text"], " cat ");
  EXPECT_EQ(stopped["ended_by"], "stop text");

  // 256 tokens are bytes, and none ends a text; with one more they are only numbers.
  nlohmann::json config = tiny_config();
  config["vocab_size"] = 257;
  write("wide/config.json", config.dump());
  const Ended run = snug(
      "train wide --data text.txt --batch 8 --seq 32 --steps 60 --lr 2e-2 --out numbers --device "
      "cpu");
  ASSERT_EQ(run.code, 0) << run.err;
  const nlohmann::json free =
      sample("--prompt-ids 116,104,101 --temperature 0 --max-tokens 16", "numbers");
  EXPECT_TRUE(free["text"].is_null());
  ASSERT_EQ(free["ids"].size(), 16U);
  nlohmann::json saved = nlohmann::json::parse(read_file(dir_ / "numbers/config.json"));
  saved["eos_token_id"] = {300, free["ids"][5]};
  write("numbers/config.json", saved.dump());
  const auto first = std::find(free["ids"].begin(), free["ids"].end(), free["ids"][5]);
  const nlohmann::json ended =
      sample("--prompt-ids 116,104,101 --temperature 0 --max-tokens 16", "numbers");
  EXPECT_EQ(ended["ids"].size(), static_cast<size_t>(first - free["ids"].begin()));
  EXPECT_EQ(ended["ended_by"], "end of text");
  EXPECT_EQ(sample("--prompt the --bytes --temperature 0 --max-tokens 16", "numbers")["ids"],
            free["ids"])
      << "no byte ends a text";
}

TEST_F(CliSample, SpeaksThroughTheTokenizer) {
  nlohmann::json config = tiny_config();
  config["vocab_size"] = 296;
  write("model/config.json", config.dump());
  write("model/tokenizer.json", kSampledTokenizer);
  const Ended run = snug(
      "train model --data text.txt --batch 8 --seq 16 --steps 60 --lr 2e-2 --out spoken --device "
      "cpu");
  ASSERT_EQ(run.code, 0) << run.err;
  const nlohmann::json report = sample("--prompt the --temperature 0 --max-tokens 12", "spoken");
  EXPECT_THAT(report["text"].get<std::string>(), HasSubstr("cat sat on"));
}

TEST_F(CliSample, EndsAtLastPosition) {
  const Ended run = snug("sample trained --device cpu --prompt the --max-tokens 100 --json");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(nlohmann::json::parse(run.out)["ids"].size(), 64U - 3 + 1);
  EXPECT_THAT(run.err, HasSubstr("at most 62 tokens more: the model has 64 positions"));
  const std::string prompt(65, 'a');
  expect_refused("sample trained --prompt " + prompt, kUsage,
                 "the prompt has 65 tokens, and 'trained' has 64 positions", "a shorter prompt");
}

TEST_F(CliSample, Refusals) {
  expect_refused("sample tiny --prompt the", kUsage, "'tiny' holds no weights",
                 "the --out of `snug train`");
  expect_refused("sample trained", kUsage, "needs --prompt TEXT, or --prompt-ids 1,2,3");
  expect_refused("sample trained --prompt a --prompt-ids 1", kUsage, "begins with one of them");
  expect_refused("sample trained --prompt-ids 1,x", kUsage, "'x' is not a token");
  expect_refused("sample trained --prompt-ids 1,256", kUsage,
                 "token 256 of the prompt is not one of the 256 of 'trained'",
                 "numbers from 0 to 255");
  expect_refused("sample trained --prompt a --max-tokens 0", kUsage, "max-tokens");
  expect_refused("sample trained --prompt a --temperature -1", kUsage, "temperature");
  expect_refused("sample trained --prompt a --temperature hot", kUsage, "is not a number");
  expect_refused("sample trained --prompt a --top-p 0", kUsage, "--top-p is 0");
  expect_refused("sample trained --prompt a --device null", kUsage, "computes nothing");
  expect_refused("sample trained --prompt a --device cpu --max-tokens 5 --budget 10KiB",
                 ExitCode::does_not_fit,
                 "sampling from trained with a prompt of 1 token and 5 more needs",
                 "larger --budget");
  expect_refused("sample trained --prompt a --lr 3", kUsage, "has no option '--lr'");
  copy_model("other", {{"vocab_size", 300}});
  expect_refused("sample other --prompt a", kUsage, "has 300 tokens and no tokenizer.json",
                 "--prompt-ids");
}

}  // namespace
}  // namespace snug

// Where transformers is installed: it opens what train saved and computes the same logits, and it
// generates the tokens that `snug sample` does.
#include <algorithm>
#include <cstdlib>
#include <ostream>

#include "cli_fixture.h"
#include "formats/safetensors_writer.h"
#include "support/small_run.h"

namespace snug {
namespace {

constexpr int kNotInstalled = 77;

std::string python() {
  const char* chosen = std::getenv("SNUG_PYTHON");
  return chosen == nullptr ? "python3" : chosen;
}

TensorToWrite tensor(std::string name, const Type& type, std::span<const std::byte> bytes) {
  return {std::move(name), type, [bytes](const ByteSink& sink) { sink(bytes); }};
}

// Runs the saved model's evaluation on random tokens and stores them with the logits.
void write_logits(const std::filesystem::path& directory) {
  SmallRun run(directory.string(), {.batch = 2, .seq = 16, .chunked_loss = false});
  run.load(directory.string());
  run.feed(0);
  std::vector<std::byte> logits;
  Type type;
  run.executor().observe = [&](size_t program, size_t op) {
    const Op& done = run.module().programs[program].ops[op];
    if (done.name != "logits") return;
    type = run.module()[done.outputs[0]].type;
    const auto bytes = run.executor().bytes(done.outputs[0]);
    logits.assign(bytes.begin(), bytes.begin() + type.bytes());
  };
  run.executor().run("eval");
  ASSERT_FALSE(logits.empty()) << "no op is called logits";
  const ValueId tokens = run.executor().shared("tokens");
  const std::vector<TensorToWrite> tensors{
      tensor("tokens", run.module()[tokens].type, run.executor().bytes(tokens)),
      tensor("logits", type, logits)};
  write_safetensors(directory / "logits.safetensors", tensors);
}

class CliTransformers : public Cli, public ::testing::WithParamInterface<const char*> {};

TEST_P(CliTransformers, LoadsSavedModel) {
  const std::string model = tests_dir() + "/parity/" + GetParam();
  const Ended train = run_snug({"train", model, "--data", "synthetic", "--steps", "5", "--seq",
                                "16", "--batch", "2", "--out", "saved"},
                               {.directory = dir_.path()});
  ASSERT_EQ(train.code, 0) << train.err;
  write_logits(dir_ / "saved");
  const Ended opened =
      run_command({python(), tests_dir() + "/parity/open_saved.py", (dir_ / "saved").string()},
                  {.limit = std::chrono::seconds(120)});
  if (opened.code == kNotInstalled || opened.code == 127)
    GTEST_SKIP() << python() << " has no transformers; SNUG_PYTHON names another Python";
  EXPECT_EQ(opened.code, 0) << opened.out << opened.err;
  std::cout << opened.out;
}

class CliGenerate : public CliTransformers {};

// The most probable token, always: generate(do_sample=False).
TEST_P(CliGenerate, MatchesTransformersTokens) {
  const std::string model = tests_dir() + "/parity/" + GetParam();
  const std::string prompt = "3,14,15,9,26,5";
  const Ended sampled = run_snug({"sample", model, "--prompt-ids", prompt, "--temperature", "0",
                                  "--max-tokens", "12", "--device", "cpu", "--json"},
                                 {.directory = dir_.path()});
  ASSERT_EQ(sampled.code, 0) << sampled.err;
  const Ended generated =
      run_command({python(), tests_dir() + "/parity/generate.py", model, prompt, "12"},
                  {.limit = std::chrono::seconds(120)});
  if (generated.code == kNotInstalled || generated.code == 127)
    GTEST_SKIP() << python() << " has no transformers; SNUG_PYTHON names another Python";
  ASSERT_EQ(generated.code, 0) << generated.out << generated.err;
  EXPECT_EQ(nlohmann::json::parse(sampled.out)["ids"], nlohmann::json::parse(generated.out));
}

INSTANTIATE_TEST_SUITE_P(Models, CliGenerate,
                         ::testing::Values("gpt2", "llama", "llama3", "qwen2", "qwen3", "mistral",
                                           "mistral_window", "olmo2", "phi3", "gemma3", "stablelm",
                                           "stablelm_parallel", "gpt_neox", "opt"),
                         [](const auto& p) { return std::string(p.param); });

INSTANTIATE_TEST_SUITE_P(Models, CliTransformers,
                         ::testing::Values("gpt2", "llama", "llama3", "qwen2", "qwen3", "mistral",
                                           "mistral_window", "olmo2", "phi3", "gemma3", "stablelm",
                                           "stablelm_parallel", "gpt_neox", "opt", "bert"),
                         [](const auto& p) { return std::string(p.param); });

}  // namespace
}  // namespace snug

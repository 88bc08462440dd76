// What `snug fit` answers is checked by a launcher that does not ask the planner: `snug train`
// without a budget, in a process whose address space is limited. The batch that fits runs; one more
// sequence does not.
//
// A process needs more than its arena: code, libraries, threads, the plan itself. How much is
// measured on the same run with a batch of one, as the address space it has taken once it steps,
// less its arena.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sanitized.h"
#include "e2e/cli_fixture.h"

namespace snug {
namespace {

constexpr int64_t kMiB = 1 << 20;
// Bytes outside the arena that grow with the batch: far less than a sequence needs.
constexpr int64_t kSlack = kMiB / 2;

constexpr const char* kPinned = "--recompute none --attention standard --loss whole --threads 1";

struct Launch {
  const char* name;
  const char* model;   // a built-in name, or a config.json
  const char* config;  // of the latter
  const char* budget;
  int64_t seq;
};

constexpr Launch kLaunches[] = {
    {"tiny", "snug-tiny", nullptr, "320MiB", 128},
    {"gpt2", "gpt2-4x256", R"({"model_type": "gpt2", "vocab_size": 2000, "n_positions": 256,
      "n_embd": 256, "n_layer": 4, "n_head": 8})",
     "256MiB", 256},
    {"bert", "bert-3x192", R"({"model_type": "bert", "vocab_size": 3000, "hidden_size": 192,
      "num_hidden_layers": 3, "num_attention_heads": 6, "intermediate_size": 768})",
     "200MB", 192},
    {"qwen2", "qwen-4x256", R"({"model_type": "qwen2", "vocab_size": 4000, "hidden_size": 256,
      "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2,
      "intermediate_size": 704, "tie_word_embeddings": true, "sliding_window": null})",
     "300MiB", 160},
    {"mistral", "mistral-3x320", R"({"model_type": "mistral", "vocab_size": 3000,
      "hidden_size": 320, "num_hidden_layers": 3, "num_attention_heads": 5,
      "num_key_value_heads": 5, "intermediate_size": 864, "sliding_window": null})",
     "250MB", 200},
};

// Bytes of "VmPeak" of a process that runs.
int64_t address_space_peak(pid_t process) {
  const std::string status = read_file(fmt::format("/proc/{}/status", process));
  const size_t at = status.find("VmPeak:");
  return at == status.npos ? 0 : std::stoll(status.substr(at + 7)) * 1024;
}

class FitLauncher : public Cli, public ::testing::WithParamInterface<Launch> {
 protected:
  FitLauncher() {
    if (GetParam().config != nullptr)
      write(fmt::format("{}/config.json", GetParam().model), GetParam().config);
  }

  std::string model() const {
    return std::string(GetParam().config == nullptr ? "" : "./") + GetParam().model;
  }
  std::string words(int64_t batch) const {
    return fmt::format("{} --seq {} --batch {} {}", model(), GetParam().seq, batch, kPinned);
  }

  int64_t arena_of(int64_t batch) {
    const Ended plan = snug("plan " + words(batch) + " --json");
    return nlohmann::json::parse(plan.out)["arena_bytes"];
  }

  // Trains for ever; looks once it has made three steps, from when on nothing is allocated.
  int64_t overhead() {
    const std::string line = fmt::format("train {} --steps 1000000 --json", words(1));
    RunOptions options;
    int64_t peak = 0;
    options.directory = dir_.path();
    options.interrupt_after = "\"step\":3";
    options.before_interrupt = [&](pid_t process) { peak = address_space_peak(process); };
    const Ended run = run_snug(split(line, ' '), options);
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_GT(peak, 0);
    return peak - arena_of(1);
  }

  Ended train_within(int64_t address_space, int64_t batch) {
    const std::string line = fmt::format("train {} --steps 3", words(batch));
    RunOptions options;
    options.directory = dir_.path();
    options.address_space = address_space;
    return run_snug(split(line, ' '), options);
  }
};

TEST_P(FitLauncher, FittingSizeRunsAndOneMoreDoesNot) {
  if (kSanitized) GTEST_SKIP() << "the address sanitizer takes all of the address space";
  const Ended fit = snug(fmt::format("fit {} --budget {} --json", words(1), GetParam().budget));
  ASSERT_EQ(fit.code, 0) << fit.err;
  const nlohmann::json answer = nlohmann::json::parse(fit.out);
  const int64_t batch = answer["batch"];
  const int64_t budget = answer["budget_bytes"];
  EXPECT_EQ(answer["arena_bytes"], arena_of(batch));
  EXPECT_EQ(answer["next_bytes"], arena_of(batch + 1));
  EXPECT_LE(arena_of(batch), budget);
  EXPECT_GT(arena_of(batch + 1), budget + kSlack) << "a budget that tells the two apart";

  const int64_t limit = overhead() + budget + kSlack;
  const Ended runs = train_within(limit, batch);
  EXPECT_EQ(runs.code, 0) << runs.err;
  EXPECT_THAT(runs.out, ::testing::HasSubstr("3/3"));
  const Ended fails = train_within(limit, batch + 1);
  EXPECT_EQ(fails.code, static_cast<int>(ExitCode::does_not_fit)) << fails.err;
  EXPECT_THAT(fails.err, ::testing::HasSubstr("snug: the system refuses an arena of"));
  EXPECT_EQ(fails.out, "") << "no step was made";
}

INSTANTIATE_TEST_SUITE_P(Models, FitLauncher, ::testing::ValuesIn(kLaunches),
                         [](const auto& p) { return std::string(p.param.name); });

}  // namespace
}  // namespace snug

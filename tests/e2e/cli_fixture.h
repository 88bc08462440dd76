// A directory with a tiny byte-level model ("tiny") and a text ("text.txt"), and snug run in it as
// typed.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "formats/testing.h"
#include "support/run_command.h"

namespace snug {

inline constexpr auto kUsage = ExitCode::usage;
inline constexpr auto kBadInput = ExitCode::bad_input;

inline nlohmann::json tiny_config() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"vocab_size", 256},
          {"max_position_embeddings", 64},
          {"hidden_size", 24},
          {"intermediate_size", 40},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"hidden_act", "silu"},
          {"rms_norm_eps", 1e-5},
          {"tie_word_embeddings", false}};
}

class Cli : public ::testing::Test {
 protected:
  Cli() {
    write("tiny/config.json", tiny_config().dump());
    std::string text;
    for (int i = 0; i < 60; ++i) text += "the cat sat on mat " + std::to_string(i * i) + ".\n";
    write("text.txt", text);
  }

  void write(std::string_view name, std::string_view bytes) {
    testing::write_bytes(dir_ / name, bytes);
  }

  // Every file and directory below the test's own, to see that nothing came or went.
  std::set<std::string> tree() const {
    std::set<std::string> paths;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_.path()))
      paths.insert(entry.path().lexically_relative(dir_.path()).string());
    return paths;
  }

  // Words are separated by single spaces.
  Ended snug(std::string_view line, RunOptions options = {}) {
    options.directory = dir_.path();
    return run_snug(split(line, ' '), options);
  }

  // The JSON object of each line of stdout.
  static std::vector<nlohmann::json> lines_of(const Ended& run) {
    std::vector<nlohmann::json> lines;
    for (const std::string& line : split(trim(run.out), '\n'))
      if (!line.empty()) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }

  // Trains as typed and gives the losses of the steps.
  std::vector<double> losses(std::string_view line, const RunOptions& options = {}) {
    const Ended run = snug(std::string(line) + " --json", options);
    EXPECT_EQ(run.code, 0) << run.err;
    std::vector<double> found;
    for (const auto& step : lines_of(run))
      if (step.contains("loss")) found.push_back(step["loss"]);
    return found;
  }

  // The held-out losses, in order.
  static std::vector<double> eval_losses(const Ended& run) {
    std::vector<double> found;
    for (const auto& line : lines_of(run))
      if (line.contains("eval_loss")) found.push_back(line["eval_loss"]);
    return found;
  }

  // Refused with this exit code, in one sentence that holds `part` and a hint that holds `hint`,
  // leaving everything as it was.
  void expect_refused(std::string_view line, ExitCode code, const std::string& part,
                      const std::string& hint = "") {
    SCOPED_TRACE(line);
    const std::set<std::string> before = tree();
    const Ended run = snug(line);
    EXPECT_EQ(run.code, static_cast<int>(code)) << run.err;
    EXPECT_EQ(run.out, "");
    EXPECT_THAT(run.err, ::testing::MatchesRegex("snug: [^\n]+\n(      [^\n]+\n)?"))
        << "a sentence and perhaps a hint";
    EXPECT_THAT(run.err.substr(0, run.err.find('\n')), ::testing::HasSubstr(part));
    EXPECT_THAT(run.err.substr(run.err.find('\n')), ::testing::HasSubstr(hint));
    EXPECT_THAT(run.err, ::testing::Not(::testing::HasSubstr("exception")));
    EXPECT_EQ(tree(), before) << "nothing half-written";
  }

  testing::TempDir dir_;
};

}  // namespace snug

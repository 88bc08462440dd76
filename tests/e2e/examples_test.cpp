// examples/ says what is true: every file of it is planned, and its table holds what came.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "support/run_command.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = fs::path(SNUG_TEST_DIR).parent_path().parent_path();

// Peaks of what the search chooses move a little when the modelled times do, and times a little
// more; an answer that changes is another answer.
constexpr double kPeakTolerance = 0.05;
constexpr double kTimeTolerance = 0.30;

struct Row {
  int exit = -1;
  double bytes = 0, milliseconds = 0;
};

double number_of(const std::string& cell, const std::map<std::string, double>& units) {
  const std::vector<std::string> words = split(trim(cell), ' ');
  return std::stod(words.at(0)) * units.at(words.at(1));
}

// By file: the lines "| [gpt-1.4b/plain](gpt-1.4b/plain.toml) | 3 | 102.5 GiB | 2.9 s |".
std::map<std::string, Row> table() {
  std::map<std::string, Row> rows;
  for (const std::string& line : split(read_file(kRoot / "examples/README.md"), '\n')) {
    if (!line.starts_with("| [")) continue;
    const std::vector<std::string> cells = split(line, '|');
    const size_t open = cells.at(1).find('('), close = cells.at(1).find(')');
    rows[cells[1].substr(open + 1, close - open - 1)] = {
        .exit = std::stoi(cells.at(2)),
        .bytes = number_of(cells.at(3), {{"GiB", 1 << 30}}),
        .milliseconds = number_of(cells.at(4), {{"ms", 1}, {"s", 1000}})};
  }
  return rows;
}

std::vector<std::string> files() {
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "examples")) {
    if (entry.path().extension() == ".toml")
      found.push_back(fs::relative(entry.path(), kRoot / "examples").string());
  }
  std::ranges::sort(found);
  return found;
}

struct Planned {
  int exit = -1;
  nlohmann::json plan;
};

Planned plan(const std::string& file) {
  // Under sanitizers a large search takes a minute.
  const Ended run = run_snug({"plan", "--config", "examples/" + file, "--json"},
                             {.directory = kRoot, .limit = std::chrono::minutes(5)});
  return {run.code, nlohmann::json::parse(run.out, nullptr, /*allow_exceptions=*/false)};
}

class Example : public ::testing::TestWithParam<std::string> {};

TEST_P(Example, MatchesTable) {
  const std::map<std::string, Row> rows = table();
  ASSERT_TRUE(rows.contains(GetParam())) << "examples/README.md has no line for it";
  const Row& row = rows.at(GetParam());
  const auto [exit, plan] = snug::plan(GetParam());
  ASSERT_TRUE(plan.is_object());
  EXPECT_EQ(exit, row.exit);
  EXPECT_EQ(plan["fits"], exit == 0);
  const int64_t arena = plan["arena_bytes"];
  const int64_t total = arena + plan["context_bytes"].get<int64_t>();
  EXPECT_EQ(total <= plan["budget_bytes"], exit == 0);
  EXPECT_NEAR(static_cast<double>(arena), row.bytes, kPeakTolerance * row.bytes);
  EXPECT_NEAR(plan["step_ms"], row.milliseconds, kTimeTolerance * row.milliseconds);
}

INSTANTIATE_TEST_SUITE_P(All, Example, ::testing::ValuesIn(files()), [](const auto& p) {
  std::string name = p.param;
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
});

TEST(Examples, EveryLineOfTheTableHasAFile) {
  const std::vector<std::string> there = files();
  for (const auto& [file, row] : table()) EXPECT_THAT(there, ::testing::Contains(file));
}

TEST(Examples, MicroBatchesMakeExactGptFit) {
  const auto [exit, plan] = snug::plan("gpt-1.4b/exact.toml");
  EXPECT_NEAR(plan["params"], 1.42e9, 0.01e9);
  EXPECT_GT(plan["accum"], 1);
  EXPECT_EQ(plan["batch"].get<int64_t>() * plan["accum"].get<int64_t>(), 16);
  EXPECT_EQ(plan["recipe"]["precision"], "fp32");
  EXPECT_EQ(plan["recipe"]["optimizer"], "adamw");
}

TEST(Examples, AllowedTechniquesAreUsed) {
  const auto [exit, plan] = snug::plan("gpt-1.4b/everything.toml");
  EXPECT_EQ(plan["recipe"]["precision"], "bf16");
}

TEST(Examples, NoAdamOfA7BFitsIn24GB) {
  const auto [exit, plan] = snug::plan("7b/everything.toml");
  const double parameters = plan["params"];
  EXPECT_GT(plan["arena_bytes"], 6 * parameters) << "weights, gradients and two moments of 8 bits";
  EXPECT_FALSE(plan["advice"].empty());
}

TEST(Examples, RecomputeSavesNothingWithoutActivations) {
  const double kept = plan("linear-48/plain.toml").plan["arena_bytes"];
  const double made_again = plan("linear-48/recompute.toml").plan["arena_bytes"];
  EXPECT_GT(made_again, 0.98 * kept);
}

}  // namespace
}  // namespace snug

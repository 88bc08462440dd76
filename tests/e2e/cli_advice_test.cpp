// What plan advises: every change, appended to the command, gives what it promised.
#include "cli_fixture.h"

namespace snug {
namespace {

class CliAdvice : public Cli {
 protected:
  nlohmann::json plan_of(const std::string& line) {
    const Ended run = snug("plan " + line + " --json");
    EXPECT_THAT(run.code, ::testing::AnyOf(0, static_cast<int>(ExitCode::does_not_fit)))
        << line << "\n"
        << run.err;
    return nlohmann::json::parse(run.out);
  }
  std::set<std::string> changes(const std::string& line) {
    std::set<std::string> found;
    const nlohmann::json plan = plan_of(line);
    for (const auto& a : plan["advice"]) found.insert(a["change"]);
    return found;
  }
  void expect_to_hold(const std::string& line) {
    SCOPED_TRACE(line);
    const nlohmann::json plan = plan_of(line);
    EXPECT_FALSE(plan["advice"].empty());
    for (const auto& advice : plan["advice"]) {
      const std::string change = advice["change"], added = advice["beside"];
      const nlohmann::json pasted =
          plan_of(fmt::format("{} {}{}{}", line, added, added.empty() ? "" : " ", change));
      EXPECT_EQ(pasted["arena_bytes"], advice["peak_bytes"]) << change;
      EXPECT_EQ(pasted["step_ms"], advice["step_ms"]) << change;
      EXPECT_EQ(plan["arena_bytes"].get<int64_t>() - pasted["arena_bytes"].get<int64_t>(),
                advice["saves_bytes"])
          << change;
    }
  }
};

TEST_F(CliAdvice, HoldsForPlansThatDoNotFit) {
  for (const char* options : {"--attention standard --loss whole --accum 2 --recompute none",
                              "--recompute none --grad-dtype fp32", "--recompute none --batch 6"})
    expect_to_hold(fmt::format("tiny --seq 16 --budget 400KB {}", options));
}

TEST_F(CliAdvice, HoldsForPlansThatFit) {
  for (const char* options : {"", "--budget 700KB --recompute full", "--accum 4 --recompute sqrt",
                              "--device cuda", "--precision bf16 --optimizer lion"})
    expect_to_hold(fmt::format("tiny --seq 16 {}", options));
}

TEST_F(CliAdvice, FittingChangesComeFirst) {
  const std::string line = "tiny --seq 16 --budget 400KB --recompute none --loss whole";
  bool fitting = true;
  const nlohmann::json plan = plan_of(line);
  EXPECT_EQ(plan["fits"], false);
  ASSERT_FALSE(plan["advice"].empty());
  EXPECT_LE(plan["advice"][0]["peak_bytes"], 400'000);
  for (const auto& advice : plan["advice"]) {
    const bool fits = advice["peak_bytes"] <= 400'000;
    EXPECT_TRUE(fitting || !fits) << advice;
    fitting = fits;
    EXPECT_GT(advice["saves_bytes"], 0) << advice;
  }
}

TEST_F(CliAdvice, ExactChangesComeFirst) {
  std::vector<std::string> effects;
  const nlohmann::json plan = plan_of(
      "tiny --seq 16 --accum 1 --loss chunked --budget 650KB --recompute none --attention "
      "standard");
  for (const auto& advice : plan["advice"])
    if (advice["peak_bytes"] <= 650'000) effects.push_back(advice["effect"]);
  ASSERT_GE(effects.size(), 2U);
  EXPECT_NE(effects.front(), "learning");
  EXPECT_TRUE(std::ranges::is_sorted(effects, {}, [](auto& e) { return e == "learning"; }));
}

// With int8, recompute changes which values are rounded.
TEST_F(CliAdvice, RecomputeIsExactOnlyWithoutInt8) {
  const auto effect_of = [&](const std::string& change, const std::string& options) {
    const nlohmann::json plan = plan_of("tiny " + options);
    for (const auto& advice : plan["advice"])
      if (advice["change"] == change) return std::string(advice["effect"]);
    return "no advice to " + change;
  };
  const std::string plain = "--attention standard --loss whole --seq ";
  EXPECT_EQ(effect_of("--recompute full", plain + "16"), "exact");
  EXPECT_EQ(effect_of("--recompute full", plain + "64 --compress int8"), "learning");
  EXPECT_EQ(effect_of("--recompute none", "--seq 16 --recompute full"), "exact");
  EXPECT_EQ(effect_of("--recompute none", "--seq 64 --recompute full --compress int8"), "learning");
}

TEST_F(CliAdvice, OmitsTechniquesInUse) {
  const std::set<std::string> plain = changes("tiny --seq 16 --attention standard --loss whole");
  for (const char* change : {"--recompute full", "--attention flash", "--precision bf16"})
    EXPECT_TRUE(plain.contains(change)) << change;
  for (const std::string& change : changes("tiny --seq 16 --precision bf16 --optimizer sgd"))
    EXPECT_THAT(change, ::testing::Not(::testing::ContainsRegex("--precision|--optimizer")));
  EXPECT_FALSE(changes("tiny --seq 16 --batch 1 --budget 500KB").contains("--recompute auto"));
}

TEST_F(CliAdvice, MicroBatchesKeepTheStep) {
  const nlohmann::json plan =
      plan_of("tiny --seq 16 --batch 6 --accum 1 --budget 400KB --recompute none");
  for (const auto& advice : plan["advice"]) {
    const std::string change = advice["change"];
    if (!change.starts_with("--batch") || change.find("--seq") != change.npos) continue;
    EXPECT_EQ(advice["effect"], "rounding");
    EXPECT_EQ(plan_of("tiny --seq 16 " + change)["recipe"]["global-batch"], 6) << change;
    return;
  }
  ADD_FAILURE() << plan["advice"];
}

TEST_F(CliAdvice, ExcessOfOneDeviceIsReported) {
  const Ended run = snug("plan llama-405b --gpu h200 --offload none");
  EXPECT_EQ(run.code, static_cast<int>(ExitCode::does_not_fit));
  EXPECT_THAT(run.out, ::testing::HasSubstr("alone take"));
  EXPECT_THAT(run.out, ::testing::HasSubstr("one device of this size cannot hold it"));
}

TEST_F(CliAdvice, CombinesChangesWhereNeeded) {
  const nlohmann::json plan = plan_of("qwen2.5-7b --gpu rtx4090 --offload none --host-budget 1GiB");
  EXPECT_EQ(plan["fits"], false);
  ASSERT_FALSE(plan["advice"].empty());
  EXPECT_LE(plan["advice"][0]["peak_bytes"],
            plan["budget_bytes"].get<int64_t>() - plan["context_bytes"].get<int64_t>());
  EXPECT_THAT(std::string(plan["advice"][0]["change"]),
              ::testing::HasSubstr("--precision bf16 --master none --optimizer"));
}

}  // namespace
}  // namespace snug

// The files of a run on a page: whatever is in them, the page is bounded and says what it could not read.
#include "page/run_subject.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "formats/testing.h"
#include "models/model.h"
#include "page/history.h"
#include "page/span_file.h"
#include "placement/plan.h"

namespace snug {
namespace {

class RunFiles : public ::testing::Test {
 protected:
  std::filesystem::path write(const char* name, std::string_view text) {
    testing::write_bytes(dir_ / name, text);
    return dir_ / name;
  }
  static std::string steps(int from, int to) {
    std::string out;
    for (int i = from; i <= to; ++i)
      out +=
          fmt::format("{{\"step\":{},\"loss\":{},\"tokens_per_s\":100,\"allocated_bytes\":4096}}\n",
                      i, i == 500 ? 99.0 : 5.0 - i * 1e-3);
    return out;
  }
  testing::TempDir dir_;
};

TEST_F(RunFiles, HistoryKeepsExtremes) {
  const HistoryOnPage history =
      read_history(write("h.jsonl", "{\"eval_loss\":6,\"step\":0}\n" + steps(1, 1000)), 100);
  EXPECT_EQ(history.json["all"], 1000);
  EXPECT_LE(history.json["step"].size(), 100U);
  EXPECT_THAT(history.json["loss"], ::testing::Contains(Json(99.0)));
  EXPECT_EQ(history.last_step, 1000);
  EXPECT_EQ(history.json["evals"], Json::parse("[[0, 6.0]]"));
  EXPECT_EQ(history.tokens_per_s, 100);
  EXPECT_EQ(history.unreadable, 0);
}

TEST_F(RunFiles, PartialLinesAndNanLossesAreTolerated) {
  const HistoryOnPage history =
      read_history(write("h.jsonl", steps(1, 2) + "{\"step\":3,\"loss\":null}\n{\"step\":4,\"lo"));
  EXPECT_EQ(history.last_step, 3);
  EXPECT_TRUE(history.json["loss"][2].is_null());
  EXPECT_EQ(history.last_loss, 5.0 - 2e-3);
  EXPECT_EQ(history.not_finite_since, 3);
  EXPECT_EQ(history.unreadable, 0);
}

TEST_F(RunFiles, OnlyUnfinishedLastLineIsTolerated) {
  EXPECT_EQ(read_history(write("h.jsonl", "what\n" + steps(1, 2) + "{\"st")).unreadable, 1);
  EXPECT_EQ(read_history(write("h.jsonl", "what\n{\"step\":1,\"loss\":5}")).unreadable, 1);
}

TEST_F(RunFiles, LongLineIsNotParsed) {
  std::string keys;  // of an object that would take a while
  for (int i = 0; i < 400'000; ++i) keys += fmt::format("\"{}\":0,", i);
  const std::string line = "{" + keys + "\"step\":2,\"loss\":4}\n";
  ASSERT_GT(line.size(), 2U << 20);  // more than a block of reading
  const HistoryOnPage history = read_history(write("h.jsonl", steps(1, 1) + line + steps(3, 3)));
  EXPECT_EQ(history.json["step"], Json::parse("[1, 3]"));
  EXPECT_EQ(history.unreadable, 1);
  EXPECT_EQ(read_spans(write("s.jsonl", line)).unreadable, 1);
}

TEST_F(RunFiles, NonFiniteLossHidesNoOther) {
  std::string text = "{\"step\":0,\"loss\":null}\n" + steps(1, 499);
  for (int i = 500; i < 1000; ++i)
    text += fmt::format("{{\"step\":{},\"loss\":{}}}\n", i, i == 777 ? "0.5" : "null");
  const HistoryOnPage history = read_history(write("h.jsonl", text), 4);
  EXPECT_THAT(history.json["loss"], ::testing::Contains(Json(0.5)));
  EXPECT_THAT(history.json["loss"], ::testing::Contains(Json(5.0 - 1e-3)));
  EXPECT_EQ(history.not_finite_since, 778);
}

TEST_F(RunFiles, EvaluationsAreThinnedKeepingLast) {
  std::string text = steps(1, 1);
  for (int i = 0; i < 1001; ++i) text += fmt::format("{{\"step\":{},\"eval_loss\":2}}\n", i);
  const HistoryOnPage history = read_history(write("h.jsonl", text), 100);
  EXPECT_EQ(history.evaluations, 1001);
  EXPECT_LE(history.json["evals"].size(), 100U);
  EXPECT_EQ(history.json["evals"].back(), Json::parse("[1000, 2.0]"));
}

TEST_F(RunFiles, ExcessStepsAreCountedWithExtremes) {
  std::string text;
  for (int i = 0; i < 10'000; ++i)  // 512 for each of 4 points are kept
    text += fmt::format("{{\"step\":{},\"loss\":{}}}\n", i, i == 432 ? 9 : 1);
  const HistoryOnPage history = read_history(write("h.jsonl", text), 4);
  EXPECT_EQ(history.json["all"], 10'000);
  EXPECT_EQ(history.last_step, 9'999);
  EXPECT_THAT(history.json["loss"], ::testing::Contains(Json(9.0)));
}

TEST_F(RunFiles, OtherFilesAreRefused) {
  const auto refusal = [&](std::string_view text) -> std::string {
    try {
      static_cast<void>(read_history(write("h.jsonl", text)));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input);
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal(""), ::testing::HasSubstr("is empty: the run has done no step"));
  EXPECT_THAT(refusal("\x80\x04 what\n"), ::testing::HasSubstr("has no line of a step"));
  EXPECT_THAT(refusal("{\"step\":\"one\",\"loss\":1}\n"),
              ::testing::HasSubstr("has no line of a step"));
  EXPECT_THAT(refusal(std::string(10'000, '[') + "\n"), ::testing::HasSubstr("nests deeper"));
}

TEST_F(RunFiles, SpansOfTheFirstMeasuredStepAreRead) {
  const auto line = [](const char* origin, int step, double begin) {
    return fmt::format(
        "{{\"origin\":\"{}\",\"step\":{},\"op\":\"h.0.x\",\"kind\":\"linear\",\"lane\":\"compute\","
        "\"layer\":0,"
        "\"begin_s\":{},\"end_s\":{}}}\n",
        origin, step, begin, begin + 1);
  };
  const SpansOnPage spans = read_spans(
      write("s.jsonl", line("measured", 0, 0) + line("measured", 0, 1) + line("measured", 1, 2) +
                           line("predicted", 0, 0) + "{\"begin_s\":-1}\nno JSON\n"));
  ASSERT_EQ(spans.measured.size(), 2U);
  EXPECT_EQ(spans.measured[1].begin, 1);
  EXPECT_EQ(spans.unreadable, 2);
}

TEST_F(RunFiles, RunWithoutPlanIsShown) {
  write("history.jsonl", steps(1, 3));
  const Json subject = run_subject({.directory = dir_.path(),
                                    .history = read_history(dir_ / "history.jsonl"),
                                    .going = true,
                                    .steps = 10,
                                    .notes = {"no checkpoint"}});
  EXPECT_EQ(subject["kind"], "run");
  EXPECT_EQ(subject["answer"]["verdict"], "still training");
  EXPECT_THAT(subject["answer"]["text"].get<std::string>(), ::testing::HasSubstr("step 3 of 10"));
  EXPECT_THAT(subject["notes"][0].get<std::string>(), ::testing::HasSubstr("still going"));
  EXPECT_TRUE(subject["spaces"].empty());
  EXPECT_EQ(subject["history"]["steps"], 10);
}

TEST_F(RunFiles, RunReportsFirstNonFiniteLoss) {
  const Json subject =
      run_subject({.directory = dir_.path(),
                   .history = read_history(write(
                       "h.jsonl", "{\"step\":1,\"loss\":5.5}\n{\"step\":2,\"loss\":null}\nx\n")),
                   .steps = 2});
  EXPECT_EQ(subject["answer"]["text"],
            "step 2 of 2, loss 5.5000 → 5.5000, not finite since step 2");
  EXPECT_EQ(subject["answer"]["tone"], "plain");
  EXPECT_EQ(subject["notes"][0], "1 line of history.jsonl is no step");
}

TEST_F(RunFiles, RunBeforeFirstStepHasEvaluationOnly) {
  const Json subject =
      run_subject({.directory = dir_.path(),
                   .history = read_history(write("h.jsonl", "{\"step\":0,\"eval_loss\":5.5}\n"))});
  EXPECT_EQ(subject["answer"]["text"], "the run has done no step yet");
  EXPECT_FALSE(subject.contains("history"));
}

// The first rank's history and profile say nothing of another stage.
TEST_F(RunFiles, FirstRankIgnoresPlanOfOtherStage) {
  std::filesystem::create_directories(dir_ / "profile");
  write("profile/spans.jsonl", "{\"origin\":\"measured\",\"step\":0,\"begin_s\":0,\"end_s\":1}\n");
  const Plan plan =
      make_plan("tiny", Model::load("snug-tiny").forward({.batch = 2, .seq = 32}), {});
  PlanFacts facts{.model = "tiny", .batch = 2, .seq = 32};
  for (const int64_t stage : {0, 1}) {
    facts.stage = stage;
    const Json subject = run_subject({.directory = dir_.path(),
                                      .history = read_history(write("h.jsonl", steps(1, 3))),
                                      .plan = PlanOnPage{plan.module, plan.memory, facts, {}, ""}});
    EXPECT_EQ(subject["lanes"].size(), stage == 0 ? 2U : 1U);
    EXPECT_THAT(subject["notes"].dump(),
                ::testing::HasSubstr(stage == 0 ? "this build plans otherwise" : "stage 2"));
  }
}

}  // namespace
}  // namespace snug

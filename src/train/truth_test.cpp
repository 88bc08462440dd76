#include "train/truth.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/text.h"

namespace snug {
namespace {

using ::testing::HasSubstr;

Truth sample() {
  return {.prices = "catalogue figures of NVIDIA H200",
          .predicted_ms = 110,
          .measured_ms = 100,
          .planned_bytes = 1'000'000,
          .peak_bytes = 1'000'000,
          .kinds = {{"linear", 48, 60, 50}, {"adamw", 7, 2, 3}}};
}

TEST(Truth, TheErrorIsOfPredictedToMeasured) {
  EXPECT_DOUBLE_EQ(error_of(90, 100), -0.1);
  EXPECT_EQ(error_of(90, 0), 0) << "nothing was measured";
}

TEST(Truth, TheFirstTwoStepsWarmUp) {
  EXPECT_EQ(typical_step_ms({9, 8, 3, 1, 2}), 2000);
  EXPECT_EQ(typical_step_ms({9}), 9000);
  EXPECT_EQ(typical_step_ms({}), 0);
}

TEST(Truth, TheTableHasStepBytesAndOps) {
  const std::string table = table_of(sample());
  EXPECT_THAT(table, HasSubstr("times predicted by catalogue figures of NVIDIA H200"));
  EXPECT_THAT(table, HasSubstr("110.000 ms          100.000 ms     +10.0%"));
  EXPECT_THAT(table, HasSubstr("1,000,000           1,000,000      +0.0%"));
  EXPECT_THAT(table, HasSubstr("adamw "));
  EXPECT_THAT(table, HasSubstr("-33.3%"));
  EXPECT_THAT(table, ::testing::Not(HasSubstr("on the GPU")));
  for (const std::string& line : split(table, '\n')) EXPECT_LE(line.size(), 100U) << line;
}

TEST(Truth, AGpusMemoryIsComparedWhole) {
  Truth truth = sample();
  truth.planned_device_bytes = 3'000'000;
  truth.device_bytes = 2'000'000;
  EXPECT_THAT(table_of(truth), HasSubstr("3,000,000           2,000,000     +50.0%"));
  EXPECT_EQ(nlohmann::json::parse(json_of(truth))["truth"]["device_bytes"], 2'000'000);
}

TEST(Truth, TheObjectHasTheSameNumbers) {
  const auto truth = nlohmann::json::parse(json_of(sample()))["truth"];
  EXPECT_EQ(truth["predicted_step_ms"], 110);
  EXPECT_EQ(truth["measured_step_ms"], 100);
  EXPECT_EQ(truth["planned_bytes"], truth["peak_bytes"]);
  EXPECT_EQ(truth["ops"].size(), 2U);
  EXPECT_EQ(truth["ops"][0]["kind"], "linear");
  EXPECT_FALSE(truth.contains("device_bytes"));
}

}  // namespace
}  // namespace snug

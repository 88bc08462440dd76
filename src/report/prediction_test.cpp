#include "report/prediction.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/text.h"

namespace snug {
namespace {

using ::testing::HasSubstr;

Prediction sample() {
  return {.times_from = "catalogue figures of NVIDIA H200",
          .predicted_ms = 110,
          .measured_ms = 100,
          .planned_bytes = 1'000'000,
          .peak_bytes = 1'000'000,
          .kinds = {{"linear", 48, 60, 50}, {"adamw", 7, 2, 3}}};
}

TEST(Prediction, ErrorIsPredictedToMeasured) {
  EXPECT_DOUBLE_EQ(error_of(90, 100), -0.1);
  EXPECT_EQ(error_of(90, 0), 0) << "nothing was measured";
}

TEST(Prediction, FirstTwoStepsWarmUp) {
  EXPECT_EQ(typical_step_ms({9, 8, 3, 1, 2}), 2000);
  EXPECT_EQ(typical_step_ms({9}), 9000);
  EXPECT_EQ(typical_step_ms({}), 0);
}

TEST(Prediction, TableHasStepBytesAndOps) {
  const std::string table = table_of(sample());
  EXPECT_THAT(table, HasSubstr("times predicted by catalogue figures of NVIDIA H200"));
  EXPECT_THAT(table, HasSubstr("110.000 ms          100.000 ms     +10.0%"));
  EXPECT_THAT(table, HasSubstr("1,000,000           1,000,000      +0.0%"));
  EXPECT_THAT(table, HasSubstr("adamw "));
  EXPECT_THAT(table, HasSubstr("-33.3%"));
  EXPECT_THAT(table, ::testing::Not(HasSubstr("on the GPU")));
  for (const std::string& line : split(table, '\n')) EXPECT_LE(line.size(), 100U) << line;
}

TEST(Prediction, GpuMemoryIsComparedWhole) {
  Prediction prediction = sample();
  prediction.planned_device_bytes = 3'000'000;
  prediction.device_bytes = 2'000'000;
  EXPECT_THAT(table_of(prediction), HasSubstr("3,000,000           2,000,000     +50.0%"));
  EXPECT_EQ(nlohmann::json::parse(json_of(prediction))["truth"]["device_bytes"], 2'000'000);
}

TEST(Prediction, ObjectHasTableNumbers) {
  const auto prediction = nlohmann::json::parse(json_of(sample()))["truth"];
  EXPECT_EQ(prediction["predicted_step_ms"], 110);
  EXPECT_EQ(prediction["measured_step_ms"], 100);
  EXPECT_EQ(prediction["planned_bytes"], prediction["peak_bytes"]);
  EXPECT_EQ(prediction["ops"].size(), 2U);
  EXPECT_EQ(prediction["ops"][0]["kind"], "linear");
  EXPECT_FALSE(prediction.contains("device_bytes"));
}

}  // namespace
}  // namespace snug

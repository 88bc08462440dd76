#include "report/profile_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "cost/step_cost.h"
#include "models/model.h"
#include "placement/plan.h"
#include "report/layout.h"

namespace snug {
namespace {

size_t visible_columns(std::string_view line) {
  return static_cast<size_t>(std::ranges::count_if(
      line, [](char c) { return (static_cast<unsigned>(c) & 0xC0U) != 0x80U; }));
}

Profile profile_of(const Plan& plan) {
  const CostModel model = nominal_model(Backend::cpu);
  Profile profile{.module = &plan.module,
                  .predicted = predicted_spans(plan.module, model),
                  .steps = 1,
                  .times_from = "a test",
                  .predicted_step = step_cost(plan.module, model).step_seconds,
                  .measured_step = 2,
                  .unmeasured_step = 1.9,
                  .planned_bytes = plan.module.arena_bytes[0],
                  .peak_bytes = plan.module.arena_bytes[0]};
  profile.measured = profile.predicted;
  for (Span& span : profile.measured) {
    span.origin = SpanOrigin::measured;
    span.begin *= 2;
    span.end *= 2;
  }
  return profile;
}

Plan tiny_plan() {
  return make_plan("tiny", Model::load("snug-tiny").forward({.batch = 1, .seq = 32}), {});
}

TEST(ProfileReport, LinesFitAndNameMeasurements) {
  const Plan plan = tiny_plan();
  const std::string table = table_of(profile_of(plan));
  for (const std::string& line : split(table, '\n')) {
    EXPECT_LE(visible_columns(line), static_cast<size_t>(kColumns)) << line;
    EXPECT_EQ(trim_end(line), line) << "spaces at the end";
  }
  for (const char* part : {"profile of 1 steps", "overhead of the profile: +5.3 %", "-50.0 %",
                           "compute", "before", "gaps of the arena"})
    EXPECT_THAT(table, ::testing::HasSubstr(part));
}

TEST(ProfileReport, JsonHasTheSameSums) {
  const Plan plan = tiny_plan();
  const Json json = Json::parse(json_of(profile_of(plan)))["profile"];
  const double predicted = json["lanes"]["compute"]["predicted_ms"];
  EXPECT_NEAR(json["lanes"]["compute"]["measured_ms"], 2 * predicted, 1e-6);
  EXPECT_EQ(json["snapshots"].size(), 6U);
  EXPECT_EQ(json["snapshots"][1]["label"], "after forward");
  EXPECT_EQ(json["gap_bytes"], plan.memory.device().gaps);
}

}  // namespace
}  // namespace snug

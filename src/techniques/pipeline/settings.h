// --pp-schedule: the order of a pipeline stage's micro-batches.
#pragma once

#include "settings/setting_text.h"

namespace snug {

// techniques/pipeline/pipeline_schedule.h draws them.
enum class PipelineSchedule : uint8_t { one_forward_one_backward, zero_bubble };

struct StageOrder {
  PipelineSchedule schedule = PipelineSchedule::one_forward_one_backward;
  int64_t chunks = 1;  // of layers, that each stage has: interleaved where there are several

  friend bool operator==(const StageOrder&, const StageOrder&) = default;

 private:
  friend struct SettingReader;  // settings/parse.h
  // 1f1b | interleaved:V | zero-bubble
  static StageOrder parse(std::string_view text, std::string_view option);
};
std::string text(const StageOrder& order);

}  // namespace snug

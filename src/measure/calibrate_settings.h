// The small trainings whose ops are timed to know a device: families, widths, micro-batches, types
// and techniques, the ones that matter most first.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/resolve.h"

namespace snug {

struct CalibrationSetting {
  std::string_view family;  // gpt2, llama, qwen2, mistral, bert or mlp
  int64_t L, C, V;          // layers, width, vocabulary (0: an MLP on rows of features)
  int64_t batch, seq;
  std::vector<std::string_view> techniques = {};  // by their names in the technique table
  Change more = {};
};

std::span<const CalibrationSetting> calibration_settings(Backend backend);

// "llama 2 x 1536, 8 x 1024 tokens, --precision bf16"
std::string text(const CalibrationSetting& setting);

Resolved resolve(const CalibrationSetting& setting, DeviceChoice device);

}  // namespace snug

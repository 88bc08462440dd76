// Mixtures of experts: counted from their config.json, and refused with what they would need.
//
//   if (is_mixture_of_experts(c.model_type)) throw experts_refused(fields, c.model_type);
#pragma once

#include <cstdint>
#include <string_view>

#include "formats/json_fields.h"

namespace snug {

struct ExpertsCount {
  int64_t total = 0;
  int64_t active = 0;  // parameters that one token meets
  friend bool operator==(const ExpertsCount&, const ExpertsCount&) = default;
};

// mixtral, qwen2_moe, qwen3_moe, olmoe, deepseek_v2 and deepseek_v3.
bool is_mixture_of_experts(std::string_view model_type);
// Of such a family, as transformers counts. Throws bad_input for fields that make no model.
ExpertsCount count_experts(const JsonFields& f, std::string_view model_type);
Error experts_refused(const JsonFields& f, std::string_view model_type);

}  // namespace snug

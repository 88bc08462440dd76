#include <algorithm>
#include <array>

#include "models/families/family.h"

namespace snug {

extern const Family gpt2_family, opt_family, bert_family, llama_family, qwen2_family,
    mistral_family, qwen3_family, olmo2_family, phi3_family, gemma3_family, stablelm_family,
    gpt_neox_family;

std::span<const Family* const> families() {
  static constexpr std::array all{
      &gpt2_family,  &opt_family,     &bert_family,     &llama_family,
      &qwen2_family, &mistral_family, &qwen3_family,    &olmo2_family,
      &phi3_family,  &gemma3_family,  &stablelm_family, &gpt_neox_family,
  };
  return all;
}

const Family* find_family(std::string_view model_type) {
  const auto all = families();
  const auto found = std::ranges::find(all, model_type, &Family::model_type);
  return found == all.end() ? nullptr : *found;
}

}  // namespace snug

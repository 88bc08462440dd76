// A member of a model's family at another size. NAME:WxL has width W and L layers and keeps what
// makes the family: the size of a head, the share of key and value heads, the MLP's inner width in
// proportion, the vocabulary.
//
//   Model::load("llama-7b:2048x16");   scaled_name("llama-7b", 2048, 16);
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "models/families/hf_config.h"
#include "models/model_config.h"

namespace snug {

struct ScaledName {
  std::string base;
  int64_t C = 0, L = 0;  // width and layers
};

// None when the name does not end in ":WxL".
std::optional<ScaledName> parse_scaled(std::string_view name);
// `model` at another size; the size that it names itself, as "mlp:4096x48" does, goes.
std::string scaled_name(std::string_view model, int64_t C, int64_t L);

// Throws a usage error for a width that the family cannot have; `name` is for its words.
HfConfig scaled(const HfConfig& base, const ScaledName& to, std::string_view name);

// The family's widths are the multiples of this: whole heads, and of 128 where the model's own is.
int64_t width_step(const ModelConfig& config);
// Depth grows with width, as it does between the published members of a family.
int64_t layers_at(const ModelConfig& config, int64_t C);

}  // namespace snug

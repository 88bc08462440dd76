// mlp:WxL: L linear layers of width W with bias, GELU between them; `features` f32[B,W] in, one of
// W classes out. The plainest thing to measure memory on: exactly L * (W*W + W) parameters.
#pragma once

#include <optional>
#include <string_view>

#include "ir/forward.h"
#include "models/build_options.h"
#include "models/model_config.h"

namespace snug {

// "mlp:4096x48"; none when the name does not begin with "mlp:". Throws a usage error when it does
// and is malformed.
std::optional<ModelConfig> parse_mlp(std::string_view name);

// Inputs: `features` f32[B,W] and `targets` i32[B]. The sequence length has no meaning here.
Forward build_mlp(const ModelConfig& config, const BuildOptions& options, Module& module,
                  std::string_view program);

}  // namespace snug

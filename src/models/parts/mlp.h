// mlp:WxL: L linear layers of width W with bias, GELU between them; `features` f32[B,W] in, one of
// W classes out. The plainest thing to measure memory on: exactly L * (W*W + W) parameters.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ir/forward.h"
#include "models/parts/inputs.h"
#include "settings/build_options.h"

namespace snug {

struct MlpSize {
  int64_t W = 0, L = 0;  // width, layers
};
// "mlp:4096x48"; none when the name does not begin with "mlp:". Throws a usage error when it does
// and is malformed.
std::optional<MlpSize> parse_mlp(std::string_view name);

// `features` f32[B,W] and `targets` i32[B]. The sequence length has no meaning here.
std::vector<Input> mlp_inputs();
Forward build_mlp(const MlpSize& size, const BuildOptions& options, Module& module,
                  std::string_view program);

}  // namespace snug

#include "models/parts/mlp.h"

#include <charconv>
#include <cmath>

#include "base/text.h"
#include "base/units.h"
#include "models/parts/emitter.h"
#include "ops/loss/cross_entropy.h"

namespace snug {
namespace {

constexpr int64_t kMaxWidth = 1 << 20;
constexpr int64_t kMaxLayers = 4096;

// A whole number in [1, limit], written with digits only; 0 when it is not.
int64_t parse_size(std::string_view text, int64_t limit) {
  int64_t n = 0;
  const char* end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data(), end, n);
  return failure == std::errc{} && rest == end && n >= 1 && n <= limit ? n : 0;
}

}  // namespace

std::optional<MlpSize> parse_mlp(std::string_view name) {
  constexpr std::string_view prefix = "mlp:";
  if (!name.starts_with(prefix)) return std::nullopt;
  const auto sizes = split(name.substr(prefix.size()), 'x');
  const int64_t W = sizes.size() == 2 ? parse_size(sizes[0], kMaxWidth) : 0;
  const int64_t L = sizes.size() == 2 ? parse_size(sizes[1], kMaxLayers) : 0;
  if (W == 0 || L == 0) {
    throw usage_error("'{}' is not an MLP: width is 1 to {}, layers are 1 to {}", name,
                      format_exact(kMaxWidth), format_exact(kMaxLayers))
        .hint("write it mlp:WIDTHxLAYERS, like mlp:4096x48");
  }
  return MlpSize{W, L};
}

std::vector<Input> mlp_inputs() {
  using enum Input::Size;
  return {{"features", Input::Source::features, Dtype::f32, {B, C}},
          {"targets", Input::Source::targets, Dtype::i32, {B}}};
}

Forward build_mlp(const MlpSize& size, const BuildOptions& options, Module& module,
                  std::string_view program) {
  const auto [W, L] = size;
  const double init_std = std::sqrt(2.0 / static_cast<double>(W));
  Emitter e(module, program);
  const std::vector<Input> inputs = mlp_inputs();
  const Input::Sizes sizes{.B = options.batch, .C = W};
  ValueId x = e.input(find_input(inputs, Input::Source::features), sizes);
  const ValueId targets = e.input(find_input(inputs, Input::Source::targets), sizes);
  for (int64_t i = 0; i < L; ++i) {
    const std::string layer = fmt::format("layers.{}", i);
    const auto scope = e.builder().layer(static_cast<int32_t>(i), layer);
    if (i > 0) x = e.activation("act", x, parts::Activation::gelu);
    x = e.linear("linear", x, {.parts = {{layer, W}}, .bias = true, .init_std = init_std});
  }
  return {.loss = ops::cross_entropy(e.builder(), "loss", {.logits = x, .targets = targets}),
          .logits = x};
}

}  // namespace snug

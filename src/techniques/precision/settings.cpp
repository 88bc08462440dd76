#include "techniques/precision/settings.h"

#include <cmath>

#include "settings/option_rows.h"

namespace snug {
namespace {

constexpr std::string_view kNoScale = "none", kDynamic = "dynamic", kFrom = "dynamic:";
constexpr double kDynamicStart = 65536;

}  // namespace

LossScale LossScale::parse(std::string_view text, std::string_view option) {
  if (text == kNoScale) return {};
  LossScale scale{.dynamic = text == kDynamic || text.starts_with(kFrom)};
  const std::string_view number =
      scale.dynamic ? text.substr(std::min(text.size(), kFrom.size())) : text;
  if (text == kDynamic) {
    scale.start = kDynamicStart;
  } else if (!read_number(number, scale.start)) {
    throw usage_error("--{} '{}' is not auto, none, dynamic, dynamic:START or a number", option,
                      text);
  }
  if (!(scale.start >= 1 && std::isfinite(static_cast<float>(scale.start))))
    throw usage_error("--{} {}: a scale is at least 1 and finite", option, text);
  return scale;
}

std::string text(const LossScale& scale) {
  if (!scale.on()) return std::string(kNoScale);
  return fmt::format("{}{}", scale.dynamic ? kFrom : "", scale.start);
}

std::vector<Option> precision_options() {
  return {
      option_row(
          "precision", &Options::precision,
          "auto | fp32 | bf16 | fp16: type of weights and activations (auto: bf16 on a GPU, "
          "fp32 on "
          "a CPU and with --tf32)",
          {.verbs = Verbs::runs | Verbs::eval | Verbs::sample | Verbs::doctor, .settled = true}),
      option_row("master", &Options::master,
                 "fp32 | none: an fp32 copy of 16-bit weights, or stochastic rounding without one",
                 {.verbs = Verbs::runs | Verbs::doctor, .settled = true}),
      option_row("grad-dtype", &Options::grad_dtype,
                 "auto | fp32 | bf16 | fp16 (auto: as --precision, fp32 when micro-batches add up)",
                 {.settled = true}),
      option_row("loss-scale", &Options::loss_scale,
                 "auto | none | dynamic[:START] | NUMBER (auto: dynamic:65536 for fp16)",
                 {.settled = true}),
      option_row("loss-scale-interval", &Options::loss_scale_interval,
                 "clean steps after which a dynamic loss scale doubles"),
      option_row(
          "tf32", &Options::tf32,
          "a GPU's fp32 matmuls and attention may round their factors to tf32",
          {.verbs = Verbs::runs | Verbs::eval | Verbs::sample | Verbs::doctor, .settled = true})};
}

}  // namespace snug

// Its rows of the technique table, and what the search may choose of it.
#include "techniques/rows.h"

namespace snug {
namespace {

bool with_bf16(const Settings&, const DeviceSpec& device) { return device.bf16_flops > 0; }
bool bf16_for_fp32(const Settings& s, const DeviceSpec& device) {
  return s.recipe.precision == Dtype::f32 && device.bf16_flops > 0;
}
bool with_tf32(const Settings& s, const DeviceSpec& device) {
  return s.recipe.backend == Backend::cuda && s.recipe.precision == Dtype::f32 &&
         device.tf32_flops > 0 && !s.math.tf32;
}
bool is_fp32(const Settings& s, bool) { return s.recipe.precision == Dtype::f32; }
template <Dtype kType>
bool sums_in_fp32(const Settings& s, bool) {
  return s.recipe.precision == kType && s.recipe.grad_dtype == Dtype::f32;
}

constexpr std::string_view kSixteenBits =
    "16-bit weights and activations; sums, statistics, losses and updates in fp32";

}  // namespace

std::vector<Technique> precision_rows() {
  return {
      {.name = "tf32",
       .dimension = "precision",
       .change = {{&Options::tf32, true}},
       .effect = Effect::rounding,
       .touches = Touches::arithmetic,
       .numbers = "a GPU's fp32 matmuls round their operands to tf32",
       .searched = with_tf32,
       .helps =
           [](const Settings& s, bool) {
             return s.recipe.backend == Backend::cuda && s.recipe.precision == Dtype::f32 &&
                    !s.math.tf32;
           }},
      {.name = "bf16",
       .dimension = "precision",
       .change = {{&Options::precision, ComputeType::bf16}},
       .effect = Effect::learning,
       .touches = Touches::state,
       .numbers = kSixteenBits,
       .on_ladder = OnLadder::alone,
       .searched = bf16_for_fp32,
       .helps = is_fp32},
      {.name = "bf16 without master",
       .dimension = "precision",
       .change = {{&Options::precision, ComputeType::bf16}, {&Options::master, Master::none}},
       .effect = Effect::learning,
       .touches = Touches::state,
       .numbers = "the same, and updates round weights stochastically",
       .on_ladder = OnLadder::together,
       .smallest = true,
       .searched = with_bf16,
       .helps = is_fp32},
      {.name = "fp16",
       .dimension = "precision",
       .change = {{&Options::precision, ComputeType::fp16}},
       .effect = Effect::learning,
       .touches = Touches::state,
       .numbers = kSixteenBits,
       .on_ladder = OnLadder::alone},
      {.name = "without master",
       .dimension = "precision",
       .change = {{&Options::master, Master::none}},
       .effect = Effect::learning,
       .touches = Touches::state,
       .numbers = "updates round weights stochastically",
       .helps = [](const Settings& s,
                   bool) { return s.recipe.precision != Dtype::f32 && s.recipe.master; }},
      {.name = "bf16 gradients",
       .dimension = "gradients",
       .change = {{&Options::grad_dtype, ComputeType::bf16}},
       .effect = Effect::learning,
       .touches = Touches::state,
       .numbers = "micro-batches add up in 16 bits",
       .helps = sums_in_fp32<Dtype::bf16>},
      {.name = "fp16 gradients",
       .dimension = "gradients",
       .change = {{&Options::grad_dtype, ComputeType::fp16}},
       .effect = Effect::learning,
       .touches = Touches::state,
       .numbers = "micro-batches add up in 16 bits",
       .helps = sums_in_fp32<Dtype::f16>},
  };
}

DimensionRow precision_dimension() {
  return {.name = "precision",
          .options = {&option_of(&Options::precision), &option_of(&Options::master)},
          .needs_allow = AllowItem::precision};
}

}  // namespace snug

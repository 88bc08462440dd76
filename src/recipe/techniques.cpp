#include "recipe/techniques.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace snug {
namespace {

using ops::AttentionKind;

// --- conditions ----------------------------------------------------------------------------------

bool always(const Settings&, const DeviceSpec&) { return true; }
bool on_cpu(const Settings& s, const DeviceSpec&) { return s.recipe.backend == Backend::cpu; }
// A CPU's host memory is its own.
bool on_gpu(const Settings& s, const DeviceSpec&) { return s.recipe.backend == Backend::cuda; }
bool has_ranks(const Settings& s, const DeviceSpec&) { return s.recipe.sharding.on(); }
bool shares_less_than(const Settings& s, int64_t stage) {
  return s.recipe.sharding.on() && s.recipe.sharding.stage < stage;
}
// Layer by layer, all micro-batches: a variant with one of them repeats another.
bool in_micro_batches(const Settings& s, const DeviceSpec& device) {
  return on_gpu(s, device) && s.recipe.micro_group == 1;
}
bool keeps_on_gpu(const Settings& s, bool) {
  return s.recipe.backend == Backend::cuda && s.recipe.offload.none();
}
// State comes from the host's memory to a GPU and goes back there.
bool leaves_host_idle(const Settings& s, bool) {
  return s.recipe.backend == Backend::cuda && !s.recipe.host_update.on &&
         keeps_all_on_host(s.recipe);
}
bool with_bf16(const Settings&, const DeviceSpec& device) { return device.bf16_flops > 0; }
bool bf16_for_fp32(const Settings& s, const DeviceSpec& device) {
  return s.recipe.precision == Dtype::f32 && device.bf16_flops > 0;
}
bool with_tf32(const Settings& s, const DeviceSpec& device) {
  return s.recipe.backend == Backend::cuda && s.recipe.precision == Dtype::f32 &&
         device.tf32_flops > 0 && !s.math.tf32;
}

bool recomputes(const Settings& s) {
  return s.recipe.recompute.kind != RecomputePolicy::Kind::none;
}
// Compression rounds what is kept, and recompute changes what that is.
Effect of_recompute(const Settings& s) {
  return s.recipe.compress == CompressKind::none ? Effect::exact : Effect::learning;
}
bool is_fp32(const Settings& s, bool) { return s.recipe.precision == Dtype::f32; }
bool is_adamw(const Settings& s, bool) { return s.recipe.optimizer == OptimizerKind::adamw; }
template <Dtype kType>
bool sums_in_fp32(const Settings& s, bool) {
  return s.recipe.precision == kType && s.recipe.grad_dtype == Dtype::f32;
}

bool freezes(const Settings& s, const DeviceSpec&) { return s.recipe.adapters.on(); }
bool freezes_whole_weights(const Settings& s, bool) {
  return s.recipe.adapters.on() && s.recipe.base == BaseKind::plain;
}

void refuse_trained_base(const Options&, const Recipe& r) {
  if (r.base == BaseKind::plain || r.adapters.on()) return;
  throw usage_error("--base-dtype {} is for weights that are not trained", print_setting(r.base))
      .hint("give --lora too, for example --lora r=16; full training keeps its weights whole");
}

void refuse_other_moments(const Options& o, const Recipe& r) {
  if (r.optimizer != OptimizerKind::adamw8bit || r.state_dtype == Dtype::f32) return;
  throw usage_error(
      "--optimizer adamw8bit keeps its moments in 8 bits: --state-dtype {} is not a type that "
      "they can take",
      print_setting(o.state_dtype))
      .hint("--optimizer adamw --state-dtype bf16 keeps both moments in 16 bits");
}

// An update in the middle of backward cannot wait for what is known only at its end.
void refuse_what_comes_late(const Options& o, const Recipe& r) {
  if (!r.update_in_backward) return;
  if (r.clip > 0) {
    throw usage_error(
        "--update-in-backward: clipping by the global norm (--clip {}) needs every gradient before "
        "the first update",
        o.clip)
        .hint("give --clip 0");
  }
  if (r.loss_scale.dynamic) {
    throw usage_error(
        "--update-in-backward: a dynamic loss scale (--loss-scale {}) skips a whole step when any "
        "gradient overflows, and the first ones would be applied by then",
        text(r.loss_scale))
        .hint("give a fixed --loss-scale, or --precision bf16");
  }
}

RecomputePolicy recompute(RecomputePolicy::Kind kind) { return {.kind = kind}; }

// --- the table -----------------------------------------------------------------------------------

constexpr std::string_view kRounding = "rounding";
constexpr std::string_view kNothing = "nothing, bit for bit";
constexpr std::string_view kTiedOrder = "nothing, but the order of a tied embedding's gradients";
constexpr std::string_view kSixteenBits =
    "16-bit weights and activations; sums, statistics, losses and updates in fp32";
constexpr std::string_view kPerMethod = "per method";

std::vector<Technique> all_techniques() {
  return {
      {.name = "standard attention",
       .dimension = "attention",
       .change = {{&Options::attention, AttentionChoice{AttentionKind::standard}}},
       .effect = Effect::rounding,
       .numbers = kRounding,
       .searched = on_cpu},  // on a GPU slower in any case and no smaller
      {.name = "flash attention",
       .dimension = "attention",
       .change = {{&Options::attention, AttentionChoice{AttentionKind::flash}}},
       .effect = Effect::rounding,
       .numbers = kRounding,
       .on_ladder = OnLadder::together,
       .smallest = true,
       .helps = [](const Settings& s,
                   bool) { return s.build.attention == AttentionKind::standard; }},
      {.name = "chunked attention",
       .dimension = "attention",
       .change = {{&Options::attention, AttentionChoice{AttentionKind::chunked}}},
       .effect = Effect::rounding,
       .numbers = kRounding,
       .on_ladder = OnLadder::alone,
       .searched = on_cpu},
      {.name = "whole loss",
       .dimension = "loss",
       .change = {{&Options::loss, LossChoice{.chunked = false}}},
       .effect = Effect::rounding,
       .numbers = kRounding,
       .searched = always},
      {.name = "chunked loss",
       .dimension = "loss",
       .change = {{&Options::loss, LossChoice{.chunked = true}}},
       .effect = Effect::rounding,
       .numbers = kRounding,
       .on_ladder = OnLadder::together,
       .smallest = true,
       .helps = [](const Settings& s, bool) { return !s.build.chunked_loss; }},
      {.name = "recompute every layer",
       .dimension = "recompute",
       .change = {{&Options::recompute, recompute(RecomputePolicy::Kind::full)}},
       .numbers = kNothing,
       .on_ladder = OnLadder::together,
       .smallest = true,
       .helps = [](const Settings& s, bool has_budget) { return !has_budget && !recomputes(s); },
       .effect_beside = of_recompute},
      {.name = "recompute sqrt",
       .dimension = "recompute",
       .change = {{&Options::recompute, recompute(RecomputePolicy::Kind::sqrt)}},
       .numbers = kNothing,
       .on_ladder = OnLadder::alone,
       .effect_beside = of_recompute},
      {.name = "recompute attention",
       .dimension = "recompute",
       .change = {{&Options::recompute, recompute(RecomputePolicy::Kind::attention)}},
       .numbers = kNothing,
       .on_ladder = OnLadder::alone,
       .effect_beside = of_recompute},
      {.name = "recompute nothing",
       .dimension = "recompute",
       .change = {{&Options::recompute, recompute(RecomputePolicy::Kind::none)}},
       .touches = Touches::arithmetic,
       .numbers = kNothing,
       .helps = [](const Settings& s, bool has_budget) { return !has_budget && recomputes(s); },
       .effect_beside = of_recompute},
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
      {.name = "int8 activations",
       .dimension = "compress",
       .change = {{&Options::compress, CompressKind::int8}},
       .effect = Effect::learning,
       .numbers = "gradients within 2 % (L2) in the tests",
       .on_ladder = OnLadder::alone,
       .smallest = true,
       .searched = always,
       .helps = [](const Settings& s, bool) { return s.recipe.compress == CompressKind::none; }},
      {.name = "nf4 base",
       .dimension = "base",
       .change = {{&Options::base_dtype, BaseKind::nf4}},
       .effect = Effect::learning,
       .touches = Touches::state,
       .numbers = "frozen weights rounded to 4 bits",
       .smallest = true,
       .searched = freezes,
       .helps = freezes_whole_weights,
       .refuse = refuse_trained_base},
      {.name = "int8 base",
       .dimension = "base",
       .change = {{&Options::base_dtype, BaseKind::int8}},
       .effect = Effect::learning,
       .touches = Touches::state,
       .numbers = "frozen weights rounded to 8 bits",
       .searched = freezes,
       .helps = freezes_whole_weights},
      {.name = "offload state",
       .dimension = "offload",
       .change = {{&Options::offload, on_host({OffloadItem::optimizer, OffloadItem::master})}},
       .touches = Touches::state,
       .numbers = kNothing,
       .searched = on_gpu,
       .helps = keeps_on_gpu},
      {.name = "offload state and gradients",
       .dimension = "offload",
       .change = {{&Options::offload,
                   on_host({OffloadItem::optimizer, OffloadItem::master, OffloadItem::grads})}},
       .touches = Touches::state,
       .numbers = kNothing,
       .searched = on_gpu,
       .helps = keeps_on_gpu},
      {.name = "offload all but activations",
       .dimension = "offload",
       .change = {{&Options::offload, on_host({OffloadItem::optimizer, OffloadItem::master,
                                               OffloadItem::grads, OffloadItem::params})}},
       .touches = Touches::state,
       .numbers = kNothing,
       .searched = on_gpu},
      {.name = "offload activations",
       .dimension = "offload",
       .change = {{&Options::offload, on_host({OffloadItem::activations})}},
       .numbers = kNothing,
       .searched = on_gpu,
       .helps = keeps_on_gpu},
      {.name = "offload state and activations",
       .dimension = "offload",
       .change = {{&Options::offload, on_host({OffloadItem::optimizer, OffloadItem::master,
                                               OffloadItem::activations})}},
       .touches = Touches::state,
       .numbers = kNothing,
       .searched = on_gpu},
      {.name = "offload state, by layer",
       .dimension = "offload",
       .change = {{&Options::offload, on_host({OffloadItem::optimizer, OffloadItem::master})},
                  {&Options::micro_order, MicroOrder{MicroOrder::Kind::vertical}}},
       .touches = Touches::state,
       .numbers = kTiedOrder,
       .searched = in_micro_batches},
      {.name = "offload all but parameters, by layer",
       .dimension = "offload",
       .change = {{&Options::offload, on_host({OffloadItem::optimizer, OffloadItem::master,
                                               OffloadItem::grads, OffloadItem::activations})},
                  {&Options::micro_order, MicroOrder{MicroOrder::Kind::vertical}}},
       .touches = Touches::state,
       .numbers = kTiedOrder,
       .searched = in_micro_batches},
      {.name = "offload all, by layer",
       .dimension = "offload",
       .change = {{&Options::offload,
                   on_host({OffloadItem::optimizer, OffloadItem::master, OffloadItem::grads,
                            OffloadItem::params, OffloadItem::activations})},
                  {&Options::micro_order, MicroOrder{MicroOrder::Kind::vertical}}},
       .touches = Touches::state,
       .numbers = kTiedOrder,
       .searched = in_micro_batches},
      {.name = "offload all",
       .dimension = "offload",
       .change = {{&Options::offload,
                   on_host({OffloadItem::optimizer, OffloadItem::master, OffloadItem::grads,
                            OffloadItem::params, OffloadItem::activations})}},
       .touches = Touches::state,
       .numbers = kNothing,
       .smallest = true,
       .searched = on_gpu,
       .helps = keeps_on_gpu},
      {.name = "share gradients among ranks",
       .dimension = "zero",
       .change = {{&Options::zero, ZeroLevel::gradients}},
       .touches = Touches::state,
       .numbers = kNothing,
       .searched = has_ranks,
       .helps = [](const Settings& s, bool) { return shares_less_than(s, 2); }},
      {.name = "share parameters among ranks",
       .dimension = "zero",
       .change = {{&Options::zero, ZeroLevel::parameters}},
       .touches = Touches::state,
       .numbers = kNothing,
       .smallest = true,
       .searched = has_ranks,
       .helps = [](const Settings& s, bool) { return shares_less_than(s, 3); }},
      {.name = "bf16 state",
       .dimension = "optimizer",
       .change = {{&Options::state_dtype, StateType::bf16}},
       .effect = Effect::learning,
       .touches = Touches::state,
       .numbers = "moments with unbiased stochastic rounding",
       .on_ladder = OnLadder::alone,
       .searched = always,
       .helps =
           [](const Settings& s, bool) {
             return s.recipe.state_dtype == Dtype::f32 &&
                    s.recipe.optimizer != OptimizerKind::adamw8bit;
           }},
      {.name = "adamw8bit",
       .dimension = "optimizer",
       .change = {{&Options::optimizer, OptimizerKind::adamw8bit}},
       .effect = Effect::learning,
       .touches = Touches::state,
       .numbers = kPerMethod,
       .on_ladder = OnLadder::together,
       .smallest = true,
       .searched = always,
       .helps = is_adamw,
       .refuse = refuse_other_moments},
      {.name = "adam-mini",
       .dimension = "optimizer",
       .change = {{&Options::optimizer, OptimizerKind::adam_mini}},
       .effect = Effect::learning,
       .touches = Touches::state,
       .numbers = kPerMethod,
       .on_ladder = OnLadder::alone,
       .other_method = true,
       .last_resort = true,
       .searched = always,
       .helps = is_adamw},
      // Not searched, nor is SGD: they want another learning rate, which nobody here can choose.
      // Lion's authors: a rate 3 to 10 times smaller than AdamW's.
      {.name = "lion",
       .dimension = "optimizer",
       .change = {{&Options::optimizer, OptimizerKind::lion}},
       .effect = Effect::learning,
       .touches = Touches::state,
       .numbers = kPerMethod,
       .on_ladder = OnLadder::alone,
       .other_method = true,
       .last_resort = true,
       .lr_factor = 0.2,
       .helps =
           [](const Settings& s, bool) {
             return s.recipe.optimizer != OptimizerKind::lion &&
                    s.recipe.optimizer != OptimizerKind::sgd;
           }},
      {.name = "sgd",
       .dimension = "optimizer",
       .change = {{&Options::optimizer, OptimizerKind::sgd}, {&Options::momentum, 0.0}},
       .effect = Effect::learning,
       .touches = Touches::state,
       .numbers = kPerMethod,
       .other_method = true,
       .last_resort = true,
       .helps = [](const Settings& s, bool) { return s.recipe.optimizer != OptimizerKind::sgd; }},
      {.name = "update on the host",
       .dimension = "update",
       .change = {{&Options::host_update, HostUpdate{.on = true}}},
       .touches = Touches::arithmetic,
       .numbers = kNothing,
       .helps = leaves_host_idle},
      {.name = "update in backward, unclipped",
       .dimension = "update",
       .change = {{&Options::update_in_backward, true}},
       .touches = Touches::state,
       .numbers = kNothing,
       .helps = [](const Settings& s,
                   bool) { return !s.recipe.update_in_backward && s.recipe.clip == 0; },
       .refuse = refuse_what_comes_late},
      {.name = "update in backward",
       .dimension = "update",
       .change = {{&Options::update_in_backward, true}, {&Options::clip, 0.0}},
       .effect = Effect::learning,
       .touches = Touches::state,
       .numbers = "no clipping by the global norm",
       .on_ladder = OnLadder::together,
       .smallest = true,
       .other_method = true,
       .helps = [](const Settings& s,
                   bool) { return !s.recipe.update_in_backward && s.recipe.clip > 0; }},
  };
}

}  // namespace

std::span<const Technique> techniques() {
  static const std::vector<Technique> table = all_techniques();
  return table;
}

Effect effect_in(const Technique& technique, const Settings& run) {
  return technique.effect_beside != nullptr ? technique.effect_beside(run) : technique.effect;
}

const Technique& technique(std::string_view name) {
  for (const Technique& t : techniques())
    if (t.name == name) return t;
  throw internal_error("no technique is called '{}'", name);
}

const Technique& smallest_of(std::string_view dimension) {
  for (const Technique& t : techniques())
    if (t.dimension == dimension && t.smallest) return t;
  throw internal_error("no technique is the smallest of '{}'", dimension);
}

std::span<const DimensionRow> dimensions() {
  static const std::vector<DimensionRow> rows{
      {.name = "attention", .options = {&option_of(&Options::attention)}, .of_sequences = true},
      {.name = "loss", .options = {&option_of(&Options::loss)}, .of_sequences = true},
      {.name = "precision",
       .options = {&option_of(&Options::precision), &option_of(&Options::master)},
       .needs_allow = AllowItem::precision},
      {.name = "optimizer",
       .options = {&option_of(&Options::optimizer), &option_of(&Options::state_dtype)},
       .needs_allow = AllowItem::optimizer},
      {.name = "compress",
       .options = {&option_of(&Options::compress)},
       .needs_allow = AllowItem::compress},
      {.name = "base",
       .options = {&option_of(&Options::base_dtype)},
       .needs_allow = AllowItem::base},
      {.name = "zero",
       .options = {&option_of(&Options::zero), &option_of(&Options::shard)},
       .beside_moves = true},
      {.name = "offload", .options = {&option_of(&Options::offload)}, .moves = true}};
  return rows;
}

}  // namespace snug

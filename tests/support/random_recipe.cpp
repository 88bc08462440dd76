#include "support/random_recipe.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "base/number.h"
#include "base/rng.h"
#include "settings/parse.h"
#include "support/small_run.h"

namespace snug {
namespace {

class Dice {
 public:
  explicit Dice(int seed)
      : key_(random_key(77, static_cast<uint64_t>(seed), hash_name("recipe"))) {}

  int64_t below(int64_t n) {
    return static_cast<int64_t>(philox(key_, draws_++)[0] % static_cast<uint64_t>(n));
  }
  bool once_in(int64_t n) { return below(n) == 0; }
  template <typename T, size_t N>
  T one_of(const T (&choices)[N]) {
    return choices[below(static_cast<int64_t>(N))];
  }

 private:
  Key key_;
  uint64_t draws_ = 0;
};

}  // namespace

DrawnRecipe draw_recipe(int seed) {
  Dice dice(seed);
  const char* models[] = {"gpt2", "llama", "qwen2", "mistral_window", "bert",
                          "mlp",  "qwen3", "olmo2", "phi3",           "gemma3"};
  const char* policies[] = {"none",      "full",      "every:2", "every:3", "sqrt",
                            "ratio:0.3", "attention", "list:0",  "list:1"};
  const ops::AttentionKind attentions[] = {ops::AttentionKind::standard,
                                           ops::AttentionKind::chunked, ops::AttentionKind::flash};
  const OptimizerKind optimizers[] = {OptimizerKind::adamw, OptimizerKind::adamw8bit,
                                      OptimizerKind::adam_mini, OptimizerKind::lion,
                                      OptimizerKind::sgd};
  const Dtype precisions[] = {Dtype::f32, Dtype::bf16, Dtype::f16};
  DrawnRecipe d;
  const std::string family = dice.one_of(models);
  d.model = family == "mlp" ? "mlp:24x3" : tests_dir() + "/parity/" + family;
  d.build.batch = 1 + dice.below(3);
  d.build.seq = family == "mlp" ? 1 : 1 + dice.below(20);
  d.build.attention = dice.one_of(attentions);
  d.build.attention_chunk = 1 + dice.below(16);
  d.build.chunked_loss = dice.once_in(2);
  d.build.loss_chunk = 1 + dice.below(40);
  if (dice.once_in(2)) d.build.dropout = 0.1;

  Recipe& r = d.recipe;
  const std::string policy = dice.one_of(policies);
  r.recompute = parse_setting<RecomputePolicy>(policy, "recompute");
  r.precision = r.grad_dtype = dice.one_of(precisions);
  if (dice.once_in(3)) r.grad_dtype = Dtype::f32;
  r.master = dice.once_in(2);
  r.accum = 1 + dice.below(3);
  r.compress = dice.once_in(4) ? CompressKind::int8 : CompressKind::none;
  r.optimizer = dice.one_of(optimizers);
  if (r.optimizer != OptimizerKind::adamw8bit && dice.once_in(3)) r.state_dtype = Dtype::bf16;
  if (dice.once_in(4)) r.momentum = 0;
  if (r.precision == Dtype::f16) r.loss_scale = {.start = 256, .dynamic = dice.once_in(2)};
  if (!r.loss_scale.dynamic && dice.once_in(3)) {
    r.update_in_backward = true;
    r.clip = 0;
  }
  r.fused_recompute = dice.once_in(2);
  d.build.residual_in_matmul = dice.once_in(2);
  d.build.fused_loss = dice.once_in(2);
  const char* adapters[] = {"r=3,targets=qkvo", "r=2,alpha=5,dropout=0.2", "r=5,targets=all"};
  const std::string lora = dice.once_in(3) && family != "mlp" ? dice.one_of(adapters) : "none";
  r.adapters = parse_setting<Adapters>(lora, "lora");
  d.build.packed = dice.once_in(3) && family != "bert" && family != "mlp";
  d.text = fmt::format(
      "seed {}: {} batch {} seq {} attention {}:{} chunked_loss {}:{} recompute {} precision {} "
      "master {} grads {} accum {} compress {} optimizer {} state {} update_in_backward {} "
      "fused_recompute {} residual_in_matmul {} fused_loss {} lora {} packed {}",
      seed, family, d.build.batch, d.build.seq, static_cast<int>(d.build.attention),
      d.build.attention_chunk, d.build.chunked_loss, d.build.loss_chunk, policy,
      name_of(r.precision), r.master, name_of(r.grad_dtype), r.accum, static_cast<int>(r.compress),
      static_cast<int>(r.optimizer), name_of(r.state_dtype), r.update_in_backward,
      r.fused_recompute, d.build.residual_in_matmul, d.build.fused_loss, lora, d.build.packed);
  return d;
}

int seeds_to_try(int usually) {
  const char* asked = std::getenv("SNUG_SEEDS");
  int seeds = usually;
  if (asked != nullptr && !read_number(std::string_view(asked), seeds))
    throw usage_error("SNUG_SEEDS={} is not a number", asked);
  return seeds;
}

void expect_as_kept(const DrawnRecipe& drawn, const std::vector<float>& losses,
                    const std::vector<float>& kept) {
  // Relative. Fresh weights of OLMo 2 feel int8 more: rounding alone moves the loss after a step of
  // AdamW by 1.2e-3, of the others by 1e-4 (after one of SGD by 4e-6).
  const float int8 = drawn.model.ends_with("olmo2") ? 4e-3F : 1e-3F;
  if (drawn.recipe.compress == CompressKind::none) {
    EXPECT_EQ(losses, kept) << "what backward recomputes is not what forward computed";
    return;
  }
  ASSERT_EQ(losses.size(), kept.size());
  EXPECT_EQ(losses[0], kept[0]) << "int8 changed forward";
  for (size_t i = 1; i < kept.size(); ++i) EXPECT_NEAR(losses[i], kept[i], int8 * kept[i]) << i;
}

}  // namespace snug

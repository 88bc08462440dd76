#include "models/families/experts.h"

#include <algorithm>
#include <array>

#include "base/units.h"
#include "models/families/common.h"

namespace snug {
namespace {

constexpr int64_t kMaxExperts = 1 << 16;

// What the configuration classes say where a file does not.
struct ExpertFamily {
  std::string_view model_type, experts_key;
  int64_t vocab, width, inner, layers, heads, kv_heads, experts, per_token, expert_inner;
};

const std::array<ExpertFamily, 6>& expert_families() {
  // clang-format off
  static const std::array<ExpertFamily, 6> all{{
      {"mixtral",     "num_local_experts",  32000, 4096, 14336, 32,  32,   8,   8, 2, 14336},
      {"qwen2_moe",   "num_experts",       151936, 2048,  5632, 24,  16,  16,  60, 4,  1408},
      {"qwen3_moe",   "num_experts",       151936, 2048,  6144, 24,  32,   4, 128, 8,   768},
      {"olmoe",       "num_experts",        50304, 2048,  2048, 16,  16,  16,  64, 8,  2048},
      {"deepseek_v2", "n_routed_experts",   32000, 4096, 11008, 32,  32,  32,  64, 6,  1407},
      {"deepseek_v3", "n_routed_experts",  129280, 7168, 18432, 61, 128, 128, 256, 8,  2048},
  }};
  // clang-format on
  return all;
}

const ExpertFamily* find_expert_family(std::string_view model_type) {
  const auto* found = std::ranges::find(expert_families(), model_type, &ExpertFamily::model_type);
  return found == expert_families().end() ? nullptr : found;
}

int64_t times(int64_t a, int64_t b) { return checked_mul(a, b, "the experts' parameters"); }

class Counter {
 public:
  Counter(const JsonFields& f, const ExpertFamily& d)
      : f_(f),
        type_(d.model_type),
        vocab_(f.size("vocab_size", d.vocab, kMaxVocab)),
        width_(f.size("hidden_size", d.width, kMaxWidth)),
        inner_(f.size("intermediate_size", d.inner, kMaxInner)),
        layers_(f.size("num_hidden_layers", d.layers, kMaxLayers)),
        heads_(f.size("num_attention_heads", d.heads, kMaxHeads)),
        kv_heads_(f.nullable_size("num_key_value_heads", d.kv_heads, kMaxHeads).value_or(heads_)),
        experts_(f.size(d.experts_key, d.experts, kMaxExperts)),
        per_token_(f.size("num_experts_per_tok", d.per_token, kMaxExperts)),
        expert_inner_(own_inner() ? f.size("moe_intermediate_size", d.expert_inner, kMaxInner)
                                  : inner_) {
    if (per_token_ > experts_) {
      throw f.refusal("num_experts_per_tok", "is {}, more than the {} experts", per_token_,
                      experts_);
    }
  }

  ExpertsCount count() const {
    const int64_t table = times(vocab_, width_);
    const bool tied = f_.flag("tie_word_embeddings", false);
    int64_t shared = table + (tied ? 0 : table) + width_;
    ExpertsCount c;
    for (int64_t i = 0; i < layers_; ++i) {
      shared = checked_add(shared, attention() + 2 * width_, "parameters");
      if (is_dense(i)) {
        shared = checked_add(shared, mlp(inner_), "parameters");
        continue;
      }
      shared = checked_add(shared, router() + always_on(), "parameters");
      c.total = checked_add(c.total, times(experts_, mlp(expert_inner_)), "parameters");
      c.active = checked_add(c.active, times(per_token_, mlp(expert_inner_)), "parameters");
    }
    return {checked_add(c.total, shared, "parameters"),
            checked_add(c.active, shared, "parameters")};
  }

 private:
  bool deepseek() const { return type_.starts_with("deepseek"); }
  bool own_inner() const { return type_ != "mixtral" && type_ != "olmoe"; }
  int64_t size(std::string_view key, int64_t otherwise) const {
    return f_.nullable_size(key, otherwise, kMaxInner).value_or(0);
  }

  int64_t mlp(int64_t inner) const { return times(3, times(width_, inner)); }
  int64_t router() const { return times(experts_, width_); }

  // Experts that every token meets.
  int64_t always_on() const {
    if (deepseek()) {
      const int64_t shared = size("n_shared_experts", type_ == "deepseek_v3" ? 1 : 0);
      return mlp(times(shared, expert_inner_));
    }
    if (type_ != "qwen2_moe") return 0;
    return mlp(size("shared_expert_intermediate_size", 5632)) + width_;  // and its gate
  }

  bool is_dense(int64_t layer) const {
    if (deepseek()) {
      const double first = f_.number("first_k_dense_replace", type_ == "deepseek_v3" ? 3 : 0);
      return static_cast<double>(layer) < first;
    }
    if (!type_.starts_with("qwen")) return false;
    const int64_t step = f_.size("decoder_sparse_step", 1, kMaxLayers);
    const OrderedJson* dense = f_.find("mlp_only_layers");
    const bool named = dense != nullptr && dense->is_array() &&
                       std::ranges::find(*dense, OrderedJson(layer)) != dense->end();
    return named || (layer + 1) % step != 0;
  }

  int64_t attention() const {
    if (deepseek()) return latent_attention();
    const int64_t head =
        f_.nullable_size("head_dim", std::nullopt, kMaxHeadDim).value_or(width_ / heads_);
    const int64_t q = times(heads_, head), kv = times(kv_heads_, head);
    int64_t count = times(width_, checked_add(2 * q, 2 * kv, "parameters"));
    if (type_ == "qwen2_moe" && f_.flag("qkv_bias", true)) count += q + 2 * kv;
    if (type_ == "qwen3_moe") count += 2 * head;
    if (type_ == "olmoe") count += q + kv;
    return count;
  }

  // Queries, keys and values through a narrow row each; only part of a head has positions.
  int64_t latent_attention() const {
    const int64_t q_rank = size("q_lora_rank", 1536), kv_rank = size("kv_lora_rank", 512);
    const int64_t rotary = size("qk_rope_head_dim", 64), plain = size("qk_nope_head_dim", 128);
    const int64_t value = size("v_head_dim", 128);
    const int64_t queries = times(heads_, plain + rotary);
    const int64_t q = q_rank > 0 ? times(width_, q_rank) + q_rank + times(q_rank, queries)
                                 : times(width_, queries);
    const int64_t kv =
        times(width_, kv_rank + rotary) + kv_rank + times(kv_rank, times(heads_, plain + value));
    return checked_add(checked_add(q, kv, "parameters"), times(times(heads_, value), width_),
                       "parameters");
  }

  const JsonFields& f_;
  std::string_view type_;
  int64_t vocab_, width_, inner_, layers_, heads_, kv_heads_, experts_, per_token_, expert_inner_;
};

}  // namespace

bool is_mixture_of_experts(std::string_view model_type) {
  return find_expert_family(model_type) != nullptr;
}

ExpertsCount count_experts(const JsonFields& f, std::string_view model_type) {
  return Counter(f, *find_expert_family(model_type)).count();
}

Error experts_refused(const JsonFields& f, std::string_view model_type) {
  constexpr int64_t kFp32 = 16, kBf16 = 8;  // bytes of weight, gradient and AdamW's two moments
  const ExpertsCount c = count_experts(f, model_type);
  return f
      .refusal("model_type", "is '{}', a mixture of experts, which Snug neither plans nor trains",
               model_type)
      .hint(fmt::format(
          "it has {} parameters, {} of them active for a token; weights, gradients and AdamW's "
          "state alone would be {} in fp32, {} in bf16",
          format_exact(c.total), format_exact(c.active), format_bytes(times(c.total, kFp32)),
          format_bytes(times(c.total, kBf16))));
}

}  // namespace snug

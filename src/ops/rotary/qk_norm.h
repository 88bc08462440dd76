// qk_norm: rms norms of the queries and the keys in packed qkv [B,T,(H+2K)*D], before their rotary
// positions; v passes through. Weights of D elements norm each head alone (Qwen3), weights of H*D
// and K*D all heads of a token together (OLMo 2).
//
//   ValueId y = qk_norm(b, "attn.qk_norm",
//                       {.qkv = qkv, .q_weight = wq, .k_weight = wk, .heads = 12, .kv_heads = 4,
//                        .head_dim = 64});
#pragma once

#include "ir/builder.h"
#include "ops/attention/packed_heads.h"

namespace snug::ops {

extern const OpDef qk_norm_def;  // (qkv, q_weight, k_weight) -> (y, rstd)
// (qkv, q_weight, k_weight, rstd, dy, [dq_sum], [dk_sum]) -> (dqkv, dq_weight, dk_weight)
extern const OpDef qk_norm_grad_def;

struct QkNorm {
  ValueId qkv, q_weight, k_weight;
  int64_t heads, kv_heads, head_dim;
  double eps = 1e-6;
  double offset = 0;  // is added to the weights: Gemma's are stored around 0
};
ValueId qk_norm(Builder& b, std::string_view name, const QkNorm& p);

// The parts of a row that are normed: columns [start(g), start(g) + width(g)).
struct QkNormParts {
  PackedHeads p;
  bool per_head;

  constexpr int64_t count() const { return per_head ? p.H + p.K : 2; }
  constexpr bool is_key(int64_t g) const { return g >= (per_head ? p.H : 1); }
  constexpr int64_t width(int64_t g) const {
    return per_head ? p.D : (is_key(g) ? p.K : p.H) * p.D;
  }
  constexpr int64_t start(int64_t g) const {
    return per_head ? g * p.D : (is_key(g) ? p.H * p.D : 0);
  }
  constexpr int64_t normed() const { return (p.H + p.K) * p.D; }  // columns; those of v follow
};
inline QkNormParts qk_norm_parts(const Shape& qkv, const Shape& q_weight, const Attrs& attrs) {
  const PackedHeads p = packed_heads(qkv, attrs);
  return {p, q_weight.back() == p.D};
}

}  // namespace snug::ops

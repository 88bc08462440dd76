// The shape of packed qkv [B,T,(H+2K)*D]: in each row all q heads, then all k heads, then all v
// heads. Read from an op's attributes "heads", "kv_heads" and "head_dim" by everything in this
// folder.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

struct PackedHeads {
  int64_t B, T, H, K, D;

  constexpr int64_t width() const { return (H + 2 * K) * D; }
  constexpr int64_t group() const { return H / K; }  // q heads that share one kv head
  // Where a head starts in the row of token (b, t).
  constexpr int64_t q(int64_t b, int64_t t, int64_t h) const {
    return (b * T + t) * width() + h * D;
  }
  constexpr int64_t k(int64_t b, int64_t t, int64_t kv) const { return q(b, t, H + kv); }
  constexpr int64_t v(int64_t b, int64_t t, int64_t kv) const { return q(b, t, H + K + kv); }
  // The same in y and dy, [B,T,H*D].
  constexpr int64_t y(int64_t b, int64_t t, int64_t h) const { return ((b * T + t) * H + h) * D; }
};

PackedHeads packed_heads(const Shape& qkv, const Attrs& attrs);

// Which keys a query sees, from the attributes "causal" and "window".
struct SeenKeys {
  bool causal = true;
  int64_t window = 0;  // > 0: causal, and only the last so many keys, the query's own among them

  // Query i sees keys [first(i), end(i, T)).
  constexpr int64_t first(int64_t i) const {
    return window > 0 && i >= window ? i - window + 1 : 0;
  }
  constexpr int64_t end(int64_t i, int64_t T) const { return causal ? i + 1 : T; }
  constexpr bool sees(int64_t i, int64_t j) const {
    return !causal || (j <= i && (window == 0 || j > i - window));
  }
  // Key j is seen by queries [first_query(j), end_query(j, T)).
  constexpr int64_t first_query(int64_t j) const { return causal ? j : 0; }
  constexpr int64_t end_query(int64_t j, int64_t T) const {
    return window > 0 && j + window < T ? j + window : T;
  }
};
SeenKeys seen_keys(const Attrs& attrs);

// What scores are multiplied by: the attribute "scale", or 1 / sqrt(D).
float score_scale(const PackedHeads& p, const Attrs& attrs);

// The same for `infer`: refuses heads that do not divide, and a qkv (input 0) of another width.
PackedHeads checked_heads(const OpView& op);

}  // namespace snug::ops

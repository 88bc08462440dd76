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
// Where ranks share the heads, the attribute `first_head` is that of the first query head here. Of all
// heads' probabilities [H,T,T] of a sample, its first: which element dropout draws for.
inline int64_t first_dropped(const KernelArgs& a) {
  const int64_t T = a.in(0).shape()[1];
  return a.attrs.i("first_head", 0) * T * T;
}

// Which keys a query sees, from the attributes "causal" and "window" and, where rows hold several
// samples, from the input `starts` (ops/packed_rows.h). What it answers is of one row: of_row(b).
struct SeenKeys {
  bool causal = true;
  int64_t window = 0;  // > 0: causal, and only the last so many keys, the query's own among them
  const int32_t* starts = nullptr;  // [B,T], of a row [T]: causal, and no key of an earlier sample

  constexpr SeenKeys of_row(int64_t b, int64_t T) const {
    return {causal, window, starts != nullptr ? starts + b * T : nullptr};
  }

  // Query i sees keys [first(i), end(i, T)). Neither decreases with i.
  constexpr int64_t first(int64_t i) const {
    const int64_t in_window = window > 0 && i >= window ? i - window + 1 : 0;
    return starts != nullptr && starts[i] > in_window ? starts[i] : in_window;
  }
  constexpr int64_t end(int64_t i, int64_t T) const { return causal ? i + 1 : T; }
  constexpr bool sees(int64_t i, int64_t j) const { return !causal || (j <= i && j >= first(i)); }
  // Key j is seen by queries [first_query(j), end_query(j, T)).
  constexpr int64_t first_query(int64_t j) const { return causal ? j : 0; }
  constexpr int64_t end_query(int64_t j, int64_t T) const {
    const int64_t end = window > 0 && j + window < T ? j + window : T;
    return starts != nullptr ? end_of_sample(j, end) : end;
  }

 private:
  // The first token in (j, end) of a later sample than j's, by bisection; or `end`.
  constexpr int64_t end_of_sample(int64_t j, int64_t end) const {
    int64_t low = j + 1;
    while (low < end) {
      const int64_t middle = low + (end - low) / 2;
      if (starts[middle] > j) {
        end = middle;
      } else {
        low = middle + 1;
      }
    }
    return end;
  }
};

// Attention ops end with the ports seed, step and sample (dropout's) and `starts`; `random` is that
// of seed.
constexpr size_t starts_port(size_t random) { return random + 3; }
inline bool has_starts(const OpView& op) { return op.has(op.def.inputs.size() - 1); }
SeenKeys seen_keys(const Attrs& attrs);  // in rows of one sample
SeenKeys seen_keys(const KernelArgs& a, size_t random);

// What scores are multiplied by: the attribute "scale", or 1 / sqrt(D).
float score_scale(const PackedHeads& p, const Attrs& attrs);

// The same for `infer`: refuses heads that do not divide, and a qkv (input 0) of another width.
PackedHeads checked_heads(const OpView& op);

}  // namespace snug::ops

// attention: softmax(q k^T * scale) v on packed qkv [B,T,(H+2K)*D] (all q heads, then k, then v)
// -> [B,T,H*D]. Grouped-query: q head h reads kv head h / (H/K). Three kinds of the same function
// and the same dropout masks: `standard` keeps the probabilities [B,H,T,T] for backward; `chunked`
// and `flash` keep a log-sum-exp per row, O(T), and recompute the probabilities. Their scores
// exist for `chunk` queries of one sample at a time, or for one tile. A window lets a query see the
// last so many keys only, its own among them; starts (ops/packed_rows.h) those of its own sample.
//
//   ValueId y = attention(b, "attn", {.qkv = turned, .heads = 12, .kv_heads = 4, .head_dim = 64});
#pragma once

#include "ir/builder.h"
#include "ops/attention/attention_kind.h"
#include "ops/random.h"

namespace snug::ops {

// All take [seed, step, sample] last, where attribute `p` > 0, and [starts] after them, where rows
// hold several samples.
extern const OpDef attention_def;               // (qkv) -> (y, probs: softmax before dropout)
extern const OpDef attention_grad_def;          // (qkv, probs, dy) -> (dqkv)
extern const OpDef chunked_attention_def;       // (qkv) -> (y, lse)
extern const OpDef chunked_attention_grad_def;  // (qkv, y, lse, dy) -> (dqkv)
extern const OpDef flash_attention_def;         // (qkv) -> (y, lse)
extern const OpDef flash_attention_grad_def;    // (qkv, y, lse, dy) -> (dqkv)

struct Attention {
  ValueId qkv;
  int64_t heads, kv_heads, head_dim;
  bool causal = true;
  int64_t window = 0;  // > 0: a causal query sees so many keys at most
  double scale = 0;    // of the scores; 0: 1 / sqrt(head_dim)
  AttentionKind kind = AttentionKind::flash;
  int64_t chunk = 128;  // chunked: queries whose scores exist at the same time
  double dropout = 0;
  Random random = {};   // used when dropout > 0
  ValueId starts = {};  // i32[B,T], where rows hold several samples
};
ValueId attention(Builder& b, std::string_view name, const Attention& p);

}  // namespace snug::ops

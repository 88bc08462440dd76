// cached_attention: attention of the tokens that are new in a sequence whose earlier keys and values
// are kept. The new ones, of packed qkv [B,T,(H+2K)*D], are written to the caches [B,N,K,D] at their
// positions; each query then sees all keys up to its own, or those of its window. `starts`
// (ops/packed_rows.h) says where positions begin: that of token t is t - starts[b,t], so that starts
// of -100 continue after 100 tokens. Positions are below N: the caller has checked `starts`.
//
//   CachedAttention p{.qkv = turned, .keys = keys, .values = values, .starts = starts,
//                     .heads = 12, .kv_heads = 4, .head_dim = 64};
//   ValueId y = cached_attention(b, "attn.mix", p);      // [B,T,H*D]
#pragma once

#include "ir/builder.h"

namespace snug::ops {

extern const OpDef cached_attention_def;  // (qkv, keys, values, starts) -> (y, keys, values)

struct CachedAttention {
  ValueId qkv;           // with rotary positions, where the model has such
  ValueId keys, values;  // persistent, [B,N,K,D] each
  ValueId starts;        // i32[B,T]
  int64_t heads, kv_heads, head_dim;
  int64_t window = 0;  // > 0: a query sees so many keys at most
  double scale = 0;    // of the scores; 0: 1 / sqrt(head_dim)
};
ValueId cached_attention(Builder& b, std::string_view name, const CachedAttention& p);

}  // namespace snug::ops

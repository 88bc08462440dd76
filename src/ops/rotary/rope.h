// rope: rotary positions on packed qkv [B,T,(H+2K)*D]: q and k heads are rotated, v heads pass
// through. Hugging Face's rotate_half convention: elements (i, i + R/2) of a head turn by t *
// inv_freq[i]; the first R of its D elements turn, the others pass through. With starts
// (ops/packed_rows.h) t counts from the beginning of the token's sample.
//
//   ValueId turned = rope(b, "attn.rope",
//                         {.qkv = qkv, .heads = 12, .kv_heads = 4, .head_dim = 64});
#pragma once

#include "ir/builder.h"

namespace snug::ops {

extern const OpDef
    rope_def;  // (qkv, [starts]) -> (y), y may be in qkv; its own backward with `inverse`

struct RopeScaling {
  enum class Kind { none, linear, llama3 } kind = Kind::none;
  double factor = 1, low_freq_factor = 1, high_freq_factor = 4;
  int64_t original_positions = 8192;
};

struct Rope {
  ValueId qkv;
  int64_t heads, kv_heads, head_dim;
  int64_t rotary_dim = 0;  // R; 0: all of a head
  double theta = 10000;
  RopeScaling scaling = {};
  ValueId starts = {};  // i32[B,T], where rows hold several samples
};
ValueId rope(Builder& b, std::string_view name, const Rope& p);

}  // namespace snug::ops

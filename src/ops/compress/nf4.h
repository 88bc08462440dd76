// nf4: weights in four bits, with one f32 scale per block of 64 consecutive elements. Two codes make
// a byte, the first in its upper half.
//
//   ValueId w = dequantize_nf4(b, "h.3.mlp.up.base", {.codes = codes, .scales = scales}, Dtype::bf16);
//
// Weights are stored where they are read or drawn, on the host (ops/compress/store.h).
#pragma once

#include "ir/builder.h"
#include "ops/compress/nf4_levels.h"

namespace snug::ops {

extern const OpDef dequantize_nf4_def;  // (codes u8[..., n / 2], scales f32) -> x[..., n]; attrs to

struct Nf4 {
  ValueId codes;
  ValueId scales;
};
ValueId dequantize_nf4(Builder& b, std::string_view name, const Nf4& from, Dtype to);

}  // namespace snug::ops

// int8: floats as one byte each, with one f32 scale per block of 128 consecutive elements. What
// comes back is within half a level of what went in: absmax of the block / 254.
//
//   Int8 kept = quantize_int8(b, "h.3.mlp.act.int8", x);
//   ValueId again = dequantize_int8(b, "h.3.mlp.act.restored", kept, Dtype::bf16);
//
// Zeros stay zeros. A block that holds an infinity or a NaN comes back as NaN throughout: what went
// wrong stays visible.
#pragma once

#include "ir/builder.h"
#include "ops/infer.h"

namespace snug::ops {

constexpr int64_t kInt8Block = 128;

// The floats that models compute in; integers have no values between their levels to give up.
constexpr bool takes_int8(Dtype dtype) { return is_model_float(dtype); }

extern const OpDef quantize_int8_def;    // (x) -> payload i8[shape of x], scales f32[n / 128, up]
extern const OpDef dequantize_int8_def;  // (payload, scales) -> x; attrs to

struct Int8 {
  ValueId payload;
  ValueId scales;
};

Int8 quantize_int8(Builder& b, std::string_view name, ValueId x);
ValueId dequantize_int8(Builder& b, std::string_view name, const Int8& from, Dtype to);

}  // namespace snug::ops

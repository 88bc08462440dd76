// Values in a format of fewer bits (format.h): ops that make them, and ops that make floats of them.
//
//   Quantized kept = quantize(b, "h.3.mlp.act.int8", kInt8, x);
//   ValueId again = dequantize(b, "h.3.mlp.act.restored", kInt8, kept, Dtype::bf16);
#pragma once

#include "ir/builder.h"
#include "ops/infer.h"
#include "ops/quantize/format.h"

namespace snug::ops {

// (x) -> payload of x's shape, scales. (payload, scales) -> x; attrs to.
extern const OpDef quantize_int8_def, dequantize_int8_def, dequantize_nf4_def;

// The floats that models compute in; integers have no values between their levels to give up.
constexpr bool can_be_quantized(Dtype dtype) { return is_model_float(dtype); }

struct Quantized {
  ValueId payload, scales;
};

Quantized quantize(Builder& b, std::string_view name, const Format& format, ValueId x);
ValueId dequantize(Builder& b, std::string_view name, const Format& format, const Quantized& from,
                   Dtype to);

}  // namespace snug::ops

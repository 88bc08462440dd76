// Rules that the `infer` of many ops share.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

// The floats that models compute in: f32 and the two of two bytes.
constexpr bool is_half(Dtype d) { return d == Dtype::bf16 || d == Dtype::f16; }
constexpr bool is_model_float(Dtype d) { return d == Dtype::f32 || is_half(d); }

// An absent optional input is of any type.
inline void require_type(const OpView& op, size_t port, const Type& want) {
  if (!op.has(port) || op.in(port) == want) return;  // no text is made of types that agree
  op.require(false, "{} is {}, not {}", op.def.inputs[port].name, op.in(port).text(), want.text());
}

// An optional input that the result is added to has the result's type.
inline void require_sum(const OpView& op, size_t port, const Type& result) {
  if (!op.has(port)) return;
  op.require(op.in(port) == result, "{} {} differs from the result {}", op.def.inputs[port].name,
             op.in(port).text(), result.text());
}

// What a parameter's gradient is kept in: as the attribute "grad_dtype" says (autodiff sets it), or
// in the type of the parameter.
inline Dtype grad_dtype(const OpView& op, Dtype of_param) {
  if (!op.attrs.has("grad_dtype")) return of_param;
  const auto dtype = parse_dtype(op.attrs.s("grad_dtype"));
  op.require(dtype && is_model_float(*dtype), "a gradient cannot be kept in '{}'",
             op.attrs.s("grad_dtype"));
  return *dtype;
}

}  // namespace snug::ops

// linear: y[..., out] = x[..., in] W^T (+ bias) (+ residual). The backward is one op per wanted
// gradient, so that each keeps exactly what it uses; the residual's gradient is dy itself.
//
//   ValueId qkv = linear(b, "attn.qkv", {.x = h, .weight = w, .bias = bias});
#pragma once

#include "ir/builder.h"

namespace snug::ops {

extern const OpDef linear_def;              // (x, weight, [bias], [residual]) -> y
extern const OpDef linear_grad_input_def;   // (dy, weight, [dx_sum]) -> dx
extern const OpDef linear_grad_weight_def;  // (x, dy, [dweight_sum]) -> dweight, laid out as weight
extern const OpDef linear_grad_bias_def;    // (dy, [dbias_sum]) -> dbias

struct Linear {
  ValueId x, weight, bias = {}, residual = {};
  bool weight_in_out =
      false;  // the weight is stored [in, out] (GPT-2's Conv1D) instead of [out, in]
};
ValueId linear(Builder& b, std::string_view name, const Linear& p);

}  // namespace snug::ops

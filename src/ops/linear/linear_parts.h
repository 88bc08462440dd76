// linear_parts: a linear layer whose outputs come in parts, each of inputs of its own, as the second
// factor of low-rank adapters does where several of them write into one packed result. With r inputs
// a part:
//
//   y[..., part p] = scale * x[..., p*r : (p+1)*r] W_p^T (+ residual)
//
//   ValueId delta = linear_parts(b, "attn.qkv.lora", {.x = u, .weight = w, .parts = {3584, 512, 512},
//                                                     .scale = 2});
//
// The weight has r columns and the parts one below the other. A part of -n is n outputs that no input
// reaches: they are 0, or the residual. The backward is one op per wanted gradient.
#pragma once

#include <vector>

#include "ir/builder.h"

namespace snug::ops {

extern const OpDef linear_parts_def;              // (x, weight, [residual]) -> y
extern const OpDef linear_parts_grad_input_def;   // (dy, weight, [dx_sum]) -> dx
extern const OpDef linear_parts_grad_weight_def;  // (x, dy, [dweight_sum]) -> dweight

struct LinearParts {
  ValueId x, weight, residual = {};
  std::vector<int64_t> parts;  // outputs of each; negative: of no input
  double scale = 1;
};
ValueId linear_parts(Builder& b, std::string_view name, const LinearParts& p);

// One part: where its columns begin in y and in x, and its rows in the weight.
struct LinearPart {
  int64_t outputs = 0;
  bool reached = true;  // by inputs; else it has no rows and no columns of x
  int64_t first_output = 0, first_row = 0, first_input = 0;
};
// As the attributes of these ops say; of r inputs each.
std::vector<LinearPart> parts_of(const Attrs& attrs, int64_t r);
double scale_of_parts(const Attrs& attrs);

}  // namespace snug::ops

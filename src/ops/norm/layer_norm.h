// layer_norm: y = (x - mean(x)) / std(x) * weight + bias over the last axis; statistics in fp32.
// residual_layer_norm: h = x + delta; y = layer_norm(h).
//
//   ValueId y = layer_norm(b, "ln_1", {.x = h, .weight = w, .bias = c});
//   auto [h2, y2] = residual_layer_norm(
//       b, "ln_2", {.x = h, .delta = attn, .weight = w2, .bias = c2});
#pragma once

#include "ir/builder.h"
#include "ops/norm/residual.h"

namespace snug::ops {

extern const OpDef layer_norm_def;           // (x, weight, bias) -> (y, mean, rstd)
extern const OpDef residual_layer_norm_def;  // (x, delta, weight, bias) -> (h, y, mean, rstd)
// (x, weight, mean, rstd, dy, [dx_sum], [dweight_sum], [dbias_sum]) -> (dx, dweight, dbias)
extern const OpDef layer_norm_grad_def;
// The same, and y once more, for backward ops that read it: (..., bias) -> (dx, dweight, dbias, y)
extern const OpDef layer_norm_recompute_grad_def;

struct LayerNorm {
  ValueId x, weight, bias;  // [..., C], [C], [C]
  double eps = 1e-5;
};
ValueId layer_norm(Builder& b, std::string_view name, const LayerNorm& p);

struct ResidualLayerNorm {
  ValueId x, delta, weight, bias;  // [..., C], [..., C], [C], [C]
  double eps = 1e-5;
};
ResidualNorm residual_layer_norm(Builder& b, std::string_view name, const ResidualLayerNorm& p);

}  // namespace snug::ops

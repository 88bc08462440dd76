// rms_norm: y = x / rms(x) * (offset + weight) over the last axis; statistics in fp32 whatever the dtype.
// residual_rms_norm: h = x + delta; y = rms_norm(h).
//
//   ValueId y = rms_norm(b, "norm", {.x = h, .weight = w});
//   auto [h2, y2] = residual_rms_norm(b, "mlp.norm", {.x = h, .delta = attn, .weight = w2});
#pragma once

#include "ir/builder.h"
#include "ops/norm/residual.h"

namespace snug::ops {

extern const OpDef rms_norm_def;           // (x, weight) -> (y, rstd)
extern const OpDef residual_rms_norm_def;  // (x, delta, weight) -> (h, y, rstd)
extern const OpDef
    rms_norm_grad_def;  // (x, weight, rstd, dy, [dx_sum], [dweight_sum]) -> (dx, dweight)
// The same, and y once more, for backward ops that read it: ... -> (dx, dweight, y)
extern const OpDef rms_norm_recompute_grad_def;

struct RmsNorm {
  ValueId x, weight;  // [..., C], [C]
  double eps = 1e-6;
  double offset = 0;
};
ValueId rms_norm(Builder& b, std::string_view name, const RmsNorm& p);

struct ResidualRmsNorm {
  ValueId x, delta, weight;  // [..., C], [..., C], [C]
  double eps = 1e-6;
  double offset = 0;
};
ResidualNorm residual_rms_norm(Builder& b, std::string_view name, const ResidualRmsNorm& p);

}  // namespace snug::ops

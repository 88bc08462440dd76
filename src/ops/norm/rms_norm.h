// rms_norm: y = x / rms(x) * weight over the last axis; statistics in fp32 whatever the dtype.
// add_rms_norm: h = x + delta; y = rms_norm(h): the residual connection and the norm after it in one sweep.
#pragma once

#include "ir/builder.h"

namespace snug::ops {

extern const OpDef rms_norm_def;           // (x, weight) -> (y, rstd)
extern const OpDef rms_norm_grad_def;      // (x, weight, rstd, dy, [dx_sum], [dw_sum]) -> (dx, dweight)

struct RmsNorm {
  ValueId x, weight;
  double eps = 1e-6;
};
ValueId rms_norm(Builder& b, std::string_view name, const RmsNorm& p);

}  // namespace snug::ops

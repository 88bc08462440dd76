// The dynamic loss scale of fp16: smaller after an overflow, larger again after enough clean steps.
#pragma once

#include "ir/builder.h"

namespace snug::ops {

// (loss_scale, clean, finite) -> (loss_scale', clean'); attrs growth, backoff, interval, floor
extern const OpDef adjust_loss_scale_def;

// Far above what fp16 gradients bear, and still exact to multiply and divide by.
constexpr double kMaxLossScale = 0x1p24;

struct AdjustLossScale {
  ValueId loss_scale;  // f32[], persistent
  ValueId clean;       // i64[], persistent: steps since the scale last changed
  ValueId finite;      // i32[]: Clip::finite
  double growth = 2, backoff = 0.5;
  int64_t interval = 1000;
  double floor = 1;
};
struct NextLossScale {
  ValueId loss_scale, clean;  // the next versions
};
// Not finite: loss_scale = max(floor, loss_scale * backoff), clean = 0. Else clean + 1, and at
// `interval` loss_scale = min(loss_scale * growth, kMaxLossScale), clean = 0.
NextLossScale adjust_loss_scale(Builder& b, std::string_view name, const AdjustLossScale& p);

}  // namespace snug::ops

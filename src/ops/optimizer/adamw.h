// adamw: one step of AdamW (Loshchilov & Hutter 2019) on one parameter, in place, with
// torch.optim.AdamW's arithmetic in fp32.
//
//   adamw(b, "wte.adamw", {.param = p, .grad = g, .m = m, .v = v, .lr = lr, .step = step, .scale =
//   clip.scale},
//         clip.finite);
#pragma once

#include "ir/builder.h"

namespace snug::ops {

extern const OpDef adamw_def;  // (param, grad, m, v, lr, step, scale) -> (param', m', v')

struct AdamW {
  ValueId param, grad, m, v;  // one type
  ValueId lr;                 // f32[]
  ValueId step;               // i64[]: the optimizer's own count, 1 on the first update
  ValueId scale;              // f32[]: the clip factor on the gradient
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0;
};
// predicate: i32[]; the parameter and its state stay as they are when it is 0.
void adamw(Builder& b, std::string_view name, const AdamW& p, ValueId predicate = {});

}  // namespace snug::ops

// adamw: one step of AdamW (Loshchilov & Hutter 2019) on one parameter, in place, with
// torch.optim.AdamW's arithmetic in fp32. Emitted through update_rule.h.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

// (param, grad, m, v, lr, step, scale, seed?) -> (param', m', v'); m and v in f32 or bf16.
// attrs beta1, beta2, eps, weight_decay
extern const OpDef adamw_def;
extern const OpDef adamw_master_def;  // on a master: master_update.h

}  // namespace snug::ops

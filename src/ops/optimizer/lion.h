// lion: a step of lr along the sign of an interpolated momentum (Chen et al. 2023); one state.
// Emitted through update_rule.h.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

// (param, grad, m, lr, step, scale, seed?) -> (param', m'); m in f32 or bf16.
// attrs beta1, beta2, weight_decay
extern const OpDef lion_def;
extern const OpDef lion_master_def;  // on a master: master_update.h

}  // namespace snug::ops

// sgd: torch.optim.SGD's arithmetic (dampening 0), with the weight decay decoupled as in the other
// methods. Without momentum it has no state, and is an op of its own. Emitted through
// update_rule.h.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

// (param, grad, lr, step, scale, seed?) -> param'; attrs weight_decay
extern const OpDef sgd_def;
extern const OpDef sgd_master_def;  // on a master: master_update.h
// (param, grad, momentum, lr, step, scale, seed?) -> (param', momentum'); momentum in f32 or bf16.
// attrs momentum, weight_decay
extern const OpDef sgd_momentum_def;
extern const OpDef sgd_momentum_master_def;  // on a master: master_update.h

}  // namespace snug::ops

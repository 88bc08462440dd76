// adamw8bit: AdamW whose moments are kept as 8-bit codes with one fp32 scale per 256 elements
// (block-wise dynamic quantisation, Dettmers et al. 2021): 2.03 bytes of state per element. Emitted
// through update_rule.h.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

// (param, grad, m, m_scale, v, v_scale, lr, step, scale, seed?) -> (param', m', m_scale', v',
// v_scale'); m and v: u8 of param's shape, scales: f32[ceil(elements / 256)]. All bytes zero: both
// moments are zero.
// attrs beta1, beta2, eps, weight_decay
extern const OpDef adamw8bit_def;
extern const OpDef adamw8bit_master_def;  // on a master: master_update.h

}  // namespace snug::ops

// adam_mini: AdamW with one second moment per part of a parameter, the mean of g^2 over the part
// (Zhang et al. 2024): half of AdamW's state. Emitted through update_rule.h.
#pragma once

#include <string>
#include <string_view>

#include "ir/op_def.h"

namespace snug::ops {

// (param, grad, m, v, lr, step, scale, seed?) -> (param', m', v'); m of param's shape in f32 or
// bf16, v f32[parts].
// attrs beta1, beta2, eps, weight_decay; in_out: the outputs are param's columns, else its rows;
// groups: the parts along the outputs as "count x outputs each", such as "12x64,12x64,768x1".
extern const OpDef adam_mini_def;
extern const OpDef adam_mini_master_def;  // on a master: master_update.h

// The parts of a parameter. One per head for the queries and keys of a packed qkv, one per output
// for its values and for other matrices, one in all for norms and biases. "" where every element
// keeps its own: embeddings, positions and heads.
std::string adam_mini_groups(const Type& type, const Param& param);
int64_t adam_mini_parts(std::string_view groups);  // how many second moments that is

}  // namespace snug::ops

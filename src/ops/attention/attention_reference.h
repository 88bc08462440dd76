// The attention family in plain double, row by row.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

void attention_reference(const RefArgs& a);
void attention_grad_reference(const RefArgs& a);
void flash_attention_reference(const RefArgs& a);
void flash_attention_grad_reference(const RefArgs& a);

}  // namespace snug::ops

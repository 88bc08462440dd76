// CPU kernels of the optimizer's ops.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

void adamw_cpu(const KernelArgs& a);
void sum_squares_cpu(const KernelArgs& a);
void clip_cpu(const KernelArgs& a);
void advance_cpu(const KernelArgs& a);

// Scratch of sum_squares: one double per block of each gradient.
int64_t sum_squares_workspace(const OpView& op);

}  // namespace snug::ops

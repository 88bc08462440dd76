// CUDA kernels of the basic ops.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

void add_cuda(const KernelArgs& a);
void multiply_cuda(const KernelArgs& a);
void assign_cuda(const KernelArgs& a);
void cast_cuda(const KernelArgs& a);
void copy_cuda(const KernelArgs& a);
void fill_cuda(const KernelArgs& a);
void is_finite_cuda(const KernelArgs& a);

}  // namespace snug::ops

// CPU kernels of the embedding family.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

void embedding_cpu(const KernelArgs& a);
void embedding_grad_cpu(const KernelArgs& a);
void embedding_grad_positions_cpu(const KernelArgs& a);
void embedding_grad_types_cpu(const KernelArgs& a);

}  // namespace snug::ops

// CPU kernels of cross_entropy: logits in any float type, softmax and loss in fp32 or wider.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

int64_t cross_entropy_workspace(int64_t rows);
void cross_entropy_cpu(const KernelArgs& a);
void cross_entropy_grad_cpu(const KernelArgs& a);

}  // namespace snug::ops

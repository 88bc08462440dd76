#pragma once

#include "ir/op_def.h"

namespace snug::ops {

void dequantize_nf4_cuda(const KernelArgs& a);

}  // namespace snug::ops

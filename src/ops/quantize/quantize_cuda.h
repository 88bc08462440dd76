// CUDA kernels of the formats.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

void quantize_int8_cuda(const KernelArgs& a);
void dequantize_int8_cuda(const KernelArgs& a);
void dequantize_nf4_cuda(const KernelArgs& a);

}  // namespace snug::ops

// CPU kernels of the formats.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

void quantize_int8_cpu(const KernelArgs& a);
void dequantize_int8_cpu(const KernelArgs& a);
void dequantize_nf4_cpu(const KernelArgs& a);

}  // namespace snug::ops

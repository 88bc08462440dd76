#pragma once

#include "ir/op_def.h"

namespace snug::ops {

void dequantize_nf4_cpu(const KernelArgs& a);

}  // namespace snug::ops

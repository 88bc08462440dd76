// CUDA kernels of cached_attention, without workspace: one writes the new keys and values, then a
// block attends for each query of each head.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

void cached_attention_cuda(const KernelArgs& a);

}  // namespace snug::ops

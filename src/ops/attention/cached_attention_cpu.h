// CPU kernel of cached_attention.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

void cached_attention_cpu(const KernelArgs& a);

}  // namespace snug::ops

// Where CUDA rounds to 16 bits on the way, which the references and the CPU's kernels do not.
#pragma once

#include "ops/testing/op_check.h"

namespace snug {

// `oracle`, with tolerance for those roundings and for nothing else.
Oracle with_cuda_rounding(Oracle oracle);

}  // namespace snug

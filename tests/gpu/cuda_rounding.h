// Where CUDA rounds to 16 bits, or floats to tf32, on the way, which the references and the CPU's
// kernels do not.
#pragma once

#include "ops/testing/op_check.h"

namespace snug {

// `oracle`, with tolerance for those roundings and for nothing else.
Oracle with_cuda_rounding(Oracle oracle);
// The same where attention's floats are rounded to tf32, whose 11 bits are those of f16.
Oracle with_tf32_attention(Oracle oracle);

}  // namespace snug

// A GEMM in a kernel of our own, for what cuBLASLt does not take: shapes and types of any
// kind, no matter how slowly.
#pragma once

#include "kernels/cuda/gemm.h"

namespace snug::ops {

void plain_gemm(const CudaGemm& p, void* stream);

}  // namespace snug::ops

// The scratch of a GEMM on either backend.
#pragma once

#include "kernels/cpu/typed_gemm.h"
#include "kernels/cuda/gemm.h"

namespace snug::ops {

inline int64_t matmul_scratch(Backend backend, int64_t m, int64_t n, int64_t k,
                              const GemmTypes& types) {
  return backend == Backend::cuda ? cuda_gemm_workspace(m, n, k) : gemm_scratch(m, n, k, types);
}

}  // namespace snug::ops

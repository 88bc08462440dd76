// Matrix products on CUDA through cuBLASLt: c [m,n] = a' [m,k] b' [k,n] (+ bias) (+ sum), all
// row-major, fp32 inside. Which algorithm serves a product is chosen once: by timing it as it will
// be used, remembered on disk per device; under --deterministic by rule.
//
//   prepare_gemm(product, a.math, stream);   // once, before values have their content
//   cuda_gemm(product, a.math, stream);      // only enqueues
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ir/op_def.h"

namespace snug::ops {

struct CudaGemm {
  int64_t m = 0, n = 0, k = 0;
  Dtype a_dtype = Dtype::bf16, b_dtype = Dtype::bf16, c_dtype = Dtype::bf16;
  const void* a = nullptr;  // [m,k], or [k,m] where transpose_a
  const void* b = nullptr;  // [k,n], or [n,k] where transpose_b
  void* c = nullptr;
  bool transpose_a = false, transpose_b = false;
  const void* bias = nullptr;  // [n] of c's type, added to every row
  const void* sum = nullptr;   // [m,n] of c's type, added; may be c
  std::span<std::byte> workspace = {};
};

// The scratch that a product may ask for: by rule, so that a plan made anywhere is the one that
// runs. Algorithms that want more are passed over.
constexpr int64_t kCudaGemmWorkspace = int64_t{32} << 20;

void prepare_gemm(const CudaGemm& p, const Math& math, void* stream);
void cuda_gemm(const CudaGemm& p, const Math& math, void* stream);

}  // namespace snug::ops

// GEMM on CUDA through cuBLASLt: c [m,n] = alpha a' [m,k] b' [k,n] (+ bias) (+ sum), all
// row-major, fp32 inside. Which algorithm serves a GEMM is chosen once, and whether in two parts
// by rows: by timing it as it will be used, cached on disk per device; under --deterministic by
// rule, and whole.
//
//   prepare_gemm(gemm, a.math, stream);  // once, before values have their content
//   cuda_gemm(gemm, a.math, stream);     // only enqueues
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "ir/op_def.h"

namespace snug::ops {

struct CudaGemm {
  int64_t m = 0, n = 0, k = 0;
  Dtype a_dtype = Dtype::bf16, b_dtype = Dtype::bf16, c_dtype = Dtype::bf16;
  const void* a = nullptr;  // [m,k], or [k,m] where transpose_a
  const void* b = nullptr;  // [k,n], or [n,k] where transpose_b
  void* c = nullptr;        // [m,n]
  // Elements from a row to the next, of a and b as stored and of c (and of sum); 0: without gaps.
  int64_t a_stride = 0, b_stride = 0, c_stride = 0;
  bool transpose_a = false, transpose_b = false;
  float alpha = 1;
  bool part = false;           // some rows of a GEMM: algorithms are chosen for it as such
  const void* bias = nullptr;  // [n] of c's type, added to every row
  const void* sum = nullptr;   // [m,n] of c's type, added; may be c
  std::span<std::byte> workspace = {};

  constexpr int64_t columns_of_a() const { return transpose_a ? m : k; }  // as stored
  constexpr int64_t columns_of_b() const { return transpose_b ? k : n; }
  constexpr int64_t stride_of_b() const { return b_stride > 0 ? b_stride : columns_of_b(); }
  constexpr int64_t stride_of_a() const { return a_stride > 0 ? a_stride : columns_of_a(); }
  constexpr int64_t stride_of_c() const { return c_stride > 0 ? c_stride : n; }
};

// The scratch that a GEMM may ask for: by rule, so that a plan made anywhere is the one that
// runs. Algorithms that want more are passed over.
constexpr int64_t kCudaGemmWorkspace = int64_t{32} << 20;

// Is it worth timing, and a large workspace? From about 512 x 512 x 512.
constexpr bool is_large_gemm(int64_t m, int64_t n, int64_t k) {
  return static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) >= 1 << 27;
}
constexpr int64_t cuda_gemm_workspace(int64_t m, int64_t n, int64_t k) {
  return is_large_gemm(m, n, k) ? kCudaGemmWorkspace : int64_t{4} << 20;
}

// Writes c, as often as it likes. SNUG_NO_TUNE=1 in the environment: by rule instead of timing.
void prepare_gemm(const CudaGemm& p, const Math& math, void* stream);
void cuda_gemm(const CudaGemm& p, const Math& math, void* stream);

// What the GEMM took when it was timed, as it was chosen to be made; nothing for GEMMs chosen
// by rule.
std::optional<double> tuned_ms(const CudaGemm& p, const Math& math);

}  // namespace snug::ops

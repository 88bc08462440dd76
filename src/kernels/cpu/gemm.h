// Matrix products on the CPU: C[m,n] = op(A) op(B) (+ C). Row-major; ld is the row length of the
// matrix as stored.
#pragma once

#include <cstdint>

namespace snug::ops {

struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;           // [m,k], or [k,m] when transpose_a
  const float* b = nullptr;           // [k,n], or [n,k] when transpose_b
  float* c = nullptr;                 // [m,n]
  int64_t lda = 0, ldb = 0, ldc = 0;  // 0: dense
  bool transpose_a = false, transpose_b = false;
  float alpha = 1;
  bool accumulate = false;  // C += instead of C =
};

// Uses all threads when called from one, and one thread inside a parallel region. Allocates nothing
// after the first call.
void gemm(const Gemm& product);

// Makes that first call, on every thread. OpenBLAS waits for ever where it is refused its buffers,
// so they are taken before anything large is.
void take_gemm_buffers();

}  // namespace snug::ops

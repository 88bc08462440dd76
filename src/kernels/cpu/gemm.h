// GEMM on the CPU, through OpenBLAS: C[m,n] = op(A) op(B) (+ C). Row-major; ld is the row length of
// the matrix as stored.
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
void gemm(const Gemm& asked);

// Makes that first call, on every thread, so that the buffers exist before anything large is
// allocated. Throws where the system refuses them.
void take_gemm_buffers();

// The threads of this thread's parallel regions from now on: `asked`, or 64 or the number of
// processors where that is less. More only wait for each other, and libgomp overflows its stack
// when asked for a million. No more of them fill an arena, in the whole process.
void use_threads(int64_t asked);

}  // namespace snug::ops

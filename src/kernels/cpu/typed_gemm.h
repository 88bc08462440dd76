// GEMM of any types that models compute in: C[m,n] = alpha op(A) op(B) (+ bias) (+ sum). Sums
// are fp32 whatever the types and rounded once, when C is stored. Operands of two bytes are widened
// a block at a time into scratch, whose size follows from the shape alone; all in f32 is one plain
// gemm without scratch. Row-major; ld is the row length of the matrix as stored.
//
//   typed_gemm({.m = rows, .n = out, .k = in, .types = {x, weight, y}, .a = ..., .scratch = ...});
#pragma once

#include <cstddef>
#include <cstdint>

#include "ir/type.h"

namespace snug::ops {

struct GemmTypes {
  Dtype a = Dtype::f32, b = Dtype::f32, c = Dtype::f32;
};

// Bytes; never less for a larger GEMM of the same types.
int64_t gemm_scratch(int64_t m, int64_t n, int64_t k, const GemmTypes& types);

struct TypedGemm {
  int64_t m = 0, n = 0, k = 0;
  GemmTypes types = {};
  const void* a = nullptr;            // [m,k], or [k,m] when transpose_a
  const void* b = nullptr;            // [k,n], or [n,k] when transpose_b
  void* c = nullptr;                  // [m,n]
  int64_t lda = 0, ldb = 0, ldc = 0;  // 0: dense
  bool transpose_a = false, transpose_b = false;
  double alpha = 1;
  const void* bias = nullptr;    // [n] in C's type or absent: added to every row
  const void* sum = nullptr;     // [m,n] laid out as C or absent: added; may be C
  std::byte* scratch = nullptr;  // gemm_scratch(m, n, k, types)
};

// The same bits on any number of threads.
void typed_gemm(const TypedGemm& asked);

}  // namespace snug::ops

#include "ops/blas/blas.h"

#include <cblas.h>

#include <cstdlib>

namespace snug::ops {
namespace {

// OpenBLAS before 0.3.23 takes an x86 core newer than itself for a Prescott (SSE3): measured 36
// GFLOP/s instead of 215 for 2048 x 1152 x 384 on two Emerald Rapids cores. Runs before OpenBLAS's
// own constructor; the user's choice wins.
[[gnu::constructor(101)]] void choose_core() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw")) {
    setenv("OPENBLAS_CORETYPE", "SKYLAKEX", 0);
  } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    setenv("OPENBLAS_CORETYPE", __builtin_cpu_is("amd") ? "ZEN" : "HASWELL", 0);
  }
#endif
}

// OpenBLAS adds k in blocks, and halves a last block of up to twice its block size: to a multiple
// of the kernel's 16 rows on one thread, exactly on several. Blocks are multiples of 32, so with k
// one too both halves are the same and the bits do not depend on the number of threads; what is
// left of another k is a product of its own.
constexpr int64_t kStep = 32;
constexpr int64_t kNeverSplit = 256;  // below every core's block size

void sgemm(const Gemm& g) {
  const auto narrow = [](int64_t v) { return static_cast<blasint>(v); };
  cblas_sgemm(CblasRowMajor, g.transpose_a ? CblasTrans : CblasNoTrans,
              g.transpose_b ? CblasTrans : CblasNoTrans, narrow(g.m), narrow(g.n), narrow(g.k),
              g.alpha, g.a, narrow(g.lda), g.b, narrow(g.ldb), g.accumulate ? 1.0F : 0.0F, g.c,
              narrow(g.ldc));
}

}  // namespace

void gemm(const Gemm& g) {
  Gemm first = g;
  if (g.lda == 0) first.lda = g.transpose_a ? g.m : g.k;
  if (g.ldb == 0) first.ldb = g.transpose_b ? g.k : g.n;
  if (g.ldc == 0) first.ldc = g.n;
  const int64_t left = g.k > kNeverSplit ? g.k % kStep : 0;
  first.k = g.k - left;
  sgemm(first);
  if (left == 0) return;
  Gemm rest = first;
  rest.k = left;
  rest.a += g.transpose_a ? first.k * first.lda : first.k;
  rest.b += g.transpose_b ? first.k : first.k * first.ldb;
  rest.accumulate = true;
  sgemm(rest);
}

}  // namespace snug::ops

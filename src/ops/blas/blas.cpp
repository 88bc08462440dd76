#include "ops/blas/blas.h"

#include <cblas.h>

#include <cstdlib>

namespace snug::ops {
namespace {

// OpenBLAS before 0.3.23 takes an x86 core newer than itself for a Prescott (SSE3): measured 36 GFLOP/s instead of 215
// for 2048 x 1152 x 384 on two Emerald Rapids cores. Runs before OpenBLAS's own constructor; the user's choice wins.
[[gnu::constructor(101)]] void choose_core() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")) {
    setenv("OPENBLAS_CORETYPE", "SKYLAKEX", 0);
  } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    setenv("OPENBLAS_CORETYPE", __builtin_cpu_is("amd") ? "ZEN" : "HASWELL", 0);
  }
#endif
}

}  // namespace

void gemm(const Gemm& g) {
  const auto narrow = [](int64_t v) { return static_cast<blasint>(v); };
  const int64_t lda = g.lda != 0 ? g.lda : (g.transpose_a ? g.m : g.k);
  const int64_t ldb = g.ldb != 0 ? g.ldb : (g.transpose_b ? g.k : g.n);
  const int64_t ldc = g.ldc != 0 ? g.ldc : g.n;
  cblas_sgemm(CblasRowMajor, g.transpose_a ? CblasTrans : CblasNoTrans, g.transpose_b ? CblasTrans : CblasNoTrans, narrow(g.m),
              narrow(g.n), narrow(g.k), g.alpha, g.a, narrow(lda), g.b, narrow(ldb), g.accumulate ? 1.0F : 0.0F, g.c, narrow(ldc));
}

}  // namespace snug::ops

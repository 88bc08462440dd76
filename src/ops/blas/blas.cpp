#include "ops/blas/blas.h"

#include <cblas.h>
#include <omp.h>

#include <algorithm>
#include <cstdlib>

#include "base/units.h"

namespace snug::ops {
namespace {

// Runs before OpenBLAS's own constructor; the user's choice wins.
// Core type: OpenBLAS before 0.3.23 takes an x86 core newer than itself for a Prescott (SSE3):
// measured 36 GFLOP/s instead of 215 for 2048 x 1152 x 384 on two Emerald Rapids cores.
// Threads: products run on our own OpenMP team, because a build of OpenBLAS with its own threads
// (Ubuntu's default) fights with it: measured 0.22x of PyTorch's speed on 16 cores.
[[gnu::constructor(101)]] void set_up_openblas() {
  setenv("OPENBLAS_NUM_THREADS", "1", 0);
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

void sgemm(const Gemm& g) {
  const auto narrow = [](int64_t v) { return static_cast<blasint>(v); };
  cblas_sgemm(CblasRowMajor, g.transpose_a ? CblasTrans : CblasNoTrans,
              g.transpose_b ? CblasTrans : CblasNoTrans, narrow(g.m), narrow(g.n), narrow(g.k),
              g.alpha, g.a, narrow(g.lda), g.b, narrow(g.ldb), g.accumulate ? 1.0F : 0.0F, g.c,
              narrow(g.ldc));
}

// Rows [m0, m0 + m) and columns [n0, n0 + n) of the product. Each element is summed over k in the
// same order whatever the cut, so bits do not depend on the number of threads.
Gemm tile(const Gemm& g, int64_t m0, int64_t m, int64_t n0, int64_t n) {
  Gemm t = g;
  t.m = m;
  t.n = n;
  t.a += g.transpose_a ? m0 : m0 * g.lda;
  t.b += g.transpose_b ? n0 * g.ldb : n0;
  t.c += m0 * g.ldc + n0;
  return t;
}

// How many rows and columns of tiles: as many as threads, with the least to pack per thread.
struct Grid {
  int64_t rows = 1, columns = 1;
};

Grid grid_for(const Gemm& g, int64_t threads) {
  Grid best{.rows = 1, .columns = threads};
  auto packed = [&](const Grid& d) { return ceil_div(g.m, d.rows) + ceil_div(g.n, d.columns); };
  for (int64_t rows = 2; rows <= threads; ++rows) {
    const Grid candidate{.rows = rows, .columns = threads / rows};
    if (threads % rows == 0 && packed(candidate) < packed(best)) best = candidate;
  }
  return best;
}

constexpr int64_t kUnroll = 16;           // tiles are whole vectors, but for the last
constexpr int64_t kWorthATeam = 1 << 20;  // multiply-adds below which one thread is as fast

}  // namespace

void gemm(const Gemm& product) {
  Gemm g = product;
  if (g.lda == 0) g.lda = g.transpose_a ? g.m : g.k;
  if (g.ldb == 0) g.ldb = g.transpose_b ? g.k : g.n;
  if (g.ldc == 0) g.ldc = g.n;
  const int64_t threads = omp_in_parallel() != 0 ? 1 : omp_get_max_threads();
  if (threads == 1 || g.m * g.n * g.k < kWorthATeam) return sgemm(g);

  const Grid grid = grid_for(g, threads);
  const int64_t height = round_up(ceil_div(g.m, grid.rows), kUnroll);
  const int64_t width = round_up(ceil_div(g.n, grid.columns), kUnroll);
#pragma omp parallel for collapse(2) schedule(static)
  for (int64_t row = 0; row < grid.rows; ++row) {
    for (int64_t column = 0; column < grid.columns; ++column) {
      const int64_t m0 = row * height;
      const int64_t n0 = column * width;
      if (m0 >= g.m || n0 >= g.n) continue;
      sgemm(tile(g, m0, std::min(height, g.m - m0), n0, std::min(width, g.n - n0)));
    }
  }
}

}  // namespace snug::ops

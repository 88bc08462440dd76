#include "kernels/cpu/gemm.h"

#include <cblas.h>
#include <omp.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

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

// A product that is not cut. Outside a parallel region OpenBLAS's OpenMP build takes as many
// threads as OpenMP would, whatever OPENBLAS_NUM_THREADS says, and cuts k elsewhere than one thread
// does.
void sgemm_on_one_thread(const Gemm& g, int threads) {
  omp_set_num_threads(1);
  sgemm(g);
  omp_set_num_threads(threads);
}

// Rows [rows.begin, rows.end) and columns [columns.begin, columns.end) of the product.
struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

Gemm tile(const Gemm& g, Range rows, Range columns) {
  Gemm t = g;
  t.m = rows.size();
  t.n = columns.size();
  t.a += g.transpose_a ? rows.begin : rows.begin * g.lda;
  t.b += g.transpose_b ? columns.begin * g.ldb : columns.begin;
  t.c += rows.begin * g.ldc + columns.begin;
  return t;
}

// Part i of n of [0, size), in whole vectors but for the last.
Range part(int64_t size, int64_t n, int64_t i) {
  constexpr int64_t kVector = 16;
  const int64_t vectors = ceil_div(size, kVector);
  return {std::min(size, vectors * i / n * kVector),
          std::min(size, vectors * (i + 1) / n * kVector)};
}

int64_t smallest_part(int64_t size, int64_t n) {
  int64_t smallest = size;
  for (int64_t i = 0; i < n; ++i) smallest = std::min(smallest, part(size, n, i).size());
  return smallest;
}

// OpenBLAS multiplies small matrices with other kernels, which sum in another order. A product of
// at least this many multiply-adds, and every tile of it, goes through the large ones, so that bits
// do not depend on the cut and so not on the number of threads.
constexpr int64_t kLarge = 1 << 20;

// How many rows and columns of tiles: at most as many as threads, the tiles large, the most threads
// busy, and then the least to pack for each.
struct Grid {
  int64_t rows = 1, columns = 1;
};

Grid grid_for(const Gemm& g, int64_t threads) {
  Grid best;
  auto packed = [&](const Grid& d) { return ceil_div(g.m, d.rows) + ceil_div(g.n, d.columns); };
  for (int64_t rows = 1; rows <= threads; ++rows) {
    const int64_t height = smallest_part(g.m, rows);
    for (int64_t columns = threads / rows; columns >= 1; --columns) {
      if (height * smallest_part(g.n, columns) * g.k < kLarge) continue;
      const Grid candidate{.rows = rows, .columns = columns};
      const int64_t gain = rows * columns - best.rows * best.columns;
      if (gain > 0 || (gain == 0 && packed(candidate) < packed(best))) best = candidate;
      break;  // fewer columns only leave threads idle
    }
  }
  return best;
}

}  // namespace

void gemm(const Gemm& product) {
  Gemm g = product;
  if (g.lda == 0) g.lda = g.transpose_a ? g.m : g.k;
  if (g.ldb == 0) g.ldb = g.transpose_b ? g.k : g.n;
  if (g.ldc == 0) g.ldc = g.n;
  const int threads = omp_in_parallel() != 0 ? 1 : omp_get_max_threads();
  if (threads == 1) return sgemm(g);
  if (g.m * g.n * g.k < 2 * kLarge) return sgemm_on_one_thread(g, threads);

  const Grid grid = grid_for(g, threads);
#pragma omp parallel for collapse(2) schedule(static)
  for (int64_t row = 0; row < grid.rows; ++row) {
    for (int64_t column = 0; column < grid.columns; ++column) {
      sgemm(tile(g, part(g.m, grid.rows, row), part(g.n, grid.columns, column)));
    }
  }
}

// Each thread is busy for long enough that none gets by with the buffer of another.
void take_gemm_buffers() {
  constexpr int64_t n = 384;
#pragma omp parallel
  {
    std::vector<float> a(n * n), c(n * n);
    sgemm({.m = n,
           .n = n,
           .k = n,
           .a = a.data(),
           .b = a.data(),
           .c = c.data(),
           .lda = n,
           .ldb = n,
           .ldc = n});
  }
}

}  // namespace snug::ops

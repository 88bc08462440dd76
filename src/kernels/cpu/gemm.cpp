#include "kernels/cpu/gemm.h"

#include <cblas.h>
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "hal/cpu/cpu_device.h"
#include "hal/cpu/guarded_memory.h"

namespace snug::ops {
namespace {

// What OpenBLAS 0.3 maps for each thread that multiplies, and twice before `main`.
#if defined(__x86_64__)
constexpr int64_t kBufferBytes = int64_t{128} << 20;
#else
constexpr int64_t kBufferBytes = int64_t{32} << 20;
#endif

// OpenBLAS asks for a buffer again and again while the system refuses it, for ever.
void end_without_buffers() {
  if (system_grants(2 * kBufferBytes)) return;
  constexpr std::string_view kWhy =
      "snug: the limit on this process's memory leaves nothing for the matrix library\n"
      "      raise it: ulimit -v\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kWhy.data(), kWhy.size());
  _exit(static_cast<int>(ExitCode::does_not_fit));
}

// Runs before OpenBLAS's own constructor; the user's choice wins.
// Core type: OpenBLAS before 0.3.23 takes an x86 core newer than itself for a Prescott (SSE3):
// measured 36 GFLOP/s instead of 215 for 2048 x 1152 x 384 on two Emerald Rapids cores.
// Threads: GEMMs run on our own OpenMP team, because a build of OpenBLAS with its own threads
// (Ubuntu's default) fights with it: measured 0.22x of PyTorch's speed on 16 cores.
[[gnu::constructor(101)]] void set_up_openblas() {
  end_without_buffers();
  use_threads(omp_get_max_threads());  // what OMP_NUM_THREADS asks for
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

// On the calling thread alone. OpenBLAS's OpenMP build takes omp_get_max_threads() threads unless
// it is called inside a region that has several, whatever OPENBLAS_NUM_THREADS says. It would cut k
// at other places than one thread does, and it spins for ever where OpenMP gives fewer
// (OMP_THREAD_LIMIT, OMP_DYNAMIC, OMP_MAX_ACTIVE_LEVELS).
void sgemm(const Gemm& g) {
  const auto narrow = [](int64_t v) { return static_cast<blasint>(v); };
  const int threads = omp_get_max_threads();  // of this thread's task: others keep theirs
  omp_set_num_threads(1);
  cblas_sgemm(CblasRowMajor, g.transpose_a ? CblasTrans : CblasNoTrans,
              g.transpose_b ? CblasTrans : CblasNoTrans, narrow(g.m), narrow(g.n), narrow(g.k),
              g.alpha, g.a, narrow(g.lda), g.b, narrow(g.ldb), g.accumulate ? 1.0F : 0.0F, g.c,
              narrow(g.ldc));
  omp_set_num_threads(threads);
}

// Rows [rows.begin, rows.end) and columns [columns.begin, columns.end) of the GEMM.
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

// OpenBLAS multiplies small matrices with other kernels, which sum in another order. A GEMM of
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

void use_threads(int64_t asked) {
  const int64_t most = std::max(omp_get_num_procs(), 64);
  const int64_t threads = std::clamp<int64_t>(asked, 1, most);
  omp_set_num_threads(static_cast<int>(threads));
  limit_fill_threads(threads);
}

void gemm(const Gemm& asked) {
  Gemm g = asked;
  if (g.lda == 0) g.lda = g.transpose_a ? g.m : g.k;
  if (g.ldb == 0) g.ldb = g.transpose_b ? g.k : g.n;
  if (g.ldc == 0) g.ldc = g.n;
  const int threads = omp_in_parallel() != 0 ? 1 : omp_get_max_threads();
  if (threads == 1 || g.m * g.n * g.k < 2 * kLarge) return sgemm(g);

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
  const std::vector<float> zeros(n * n);
  std::vector<float> results(static_cast<size_t>(omp_get_max_threads()) * n * n);
  int refused = 0;  // threads that would wait for ever
#pragma omp parallel
  {
#pragma omp single  // the others wait: by now all threads exist
    if (!system_grants(omp_get_num_threads() * kBufferBytes)) refused = omp_get_num_threads();
    if (refused == 0) {
      sgemm({.m = n,
             .n = n,
             .k = n,
             .a = zeros.data(),
             .b = zeros.data(),
             .c = results.data() + omp_get_thread_num() * n * n,
             .lda = n,
             .ldb = n,
             .ldc = n});
    }
  }
  if (refused > 0) {
    throw does_not_fit("the system refuses the {} that {} threads multiply in",
                       format_bytes(refused * kBufferBytes), refused)
        .hint("fewer threads (--threads), or a higher limit on memory (ulimit -v)");
  }
}

}  // namespace snug::ops

#include "ops/cuda/gemm_waves.h"

#include <algorithm>

#include "base/error.h"
#include "base/units.h"

namespace snug::ops {
namespace {

constexpr int64_t kTile = 128;  // rows; and columns, of which large tiles have twice as many

int64_t waves(int64_t rows, int64_t columns, int64_t tile_columns, int64_t multiprocessors) {
  return ceil_div(ceil_div(rows, kTile) * ceil_div(columns, tile_columns), multiprocessors);
}

template <typename Byte>
Byte* shifted(Byte* array, int64_t elements, Dtype dtype) {
  return array == nullptr ? nullptr : array + elements * size_of(dtype);
}

}  // namespace

// In halves of a wave: one of small tiles takes half as long.
int64_t rows_of_whole_waves(int64_t m, int64_t n, int64_t multiprocessors) {
  constexpr double kWorthwhile = 0.95;
  const auto large = [&](int64_t rows) { return 2 * waves(rows, n, 2 * kTile, multiprocessors); };
  const auto small = [&](int64_t rows) { return waves(rows, n, kTile, multiprocessors); };
  int64_t best = large(m), best_rows = 0;
  for (int64_t rows = kTile; rows < m; rows += kTile) {
    const int64_t both = large(rows) + small(m - rows);
    if (both <= best) best_rows = rows;  // of equals the one with most rows in large tiles
    best = std::min(best, both);
  }
  const auto promised = static_cast<double>(best);
  return promised <= kWorthwhile * static_cast<double>(large(m)) ? best_rows : 0;
}

CudaGemm rows_of(const CudaGemm& p, int64_t first, int64_t count) {
  if (p.transpose_a) throw internal_error("rows of a product whose first factor is transposed");
  CudaGemm part = p;
  part.part = true;
  part.m = count;
  part.a = shifted(static_cast<const std::byte*>(p.a), first * p.stride_of_a(), p.a_dtype);
  part.c = shifted(static_cast<std::byte*>(p.c), first * p.stride_of_c(), p.c_dtype);
  part.sum = shifted(static_cast<const std::byte*>(p.sum), first * p.stride_of_c(), p.c_dtype);
  return part;
}

}  // namespace snug::ops

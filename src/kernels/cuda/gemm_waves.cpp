#include "kernels/cuda/gemm_waves.h"

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

// A small tile is half the work of a large one, and takes a little longer than half of its time:
// it reads more for each GEMM. The whole may be made in either.
int64_t rows_of_whole_waves(int64_t m, int64_t n, int64_t multiprocessors) {
  constexpr double kSmall = 0.52, kWorthwhile = 0.98;
  const auto large = [&](int64_t rows) {
    return static_cast<double>(waves(rows, n, 2 * kTile, multiprocessors));
  };
  const auto small = [&](int64_t rows) {
    return kSmall * static_cast<double>(waves(rows, n, kTile, multiprocessors));
  };
  double best = kWorthwhile * std::min(large(m), small(m));
  int64_t best_rows = 0;
  for (int64_t rows = kTile; rows < m; rows += kTile) {
    const double both = large(rows) + small(m - rows);
    if (both > best) continue;
    best = both;
    best_rows = rows;  // of equals the one with most rows in large tiles
  }
  return best_rows;
}

CudaGemm rows_of(const CudaGemm& p, int64_t first, int64_t count) {
  if (p.transpose_a) throw internal_error("rows of a GEMM whose first factor is transposed");
  CudaGemm part = p;
  part.part = true;
  part.m = count;
  part.a = shifted(static_cast<const std::byte*>(p.a), first * p.stride_of_a(), p.a_dtype);
  part.c = shifted(static_cast<std::byte*>(p.c), first * p.stride_of_c(), p.c_dtype);
  part.sum = shifted(static_cast<const std::byte*>(p.sum), first * p.stride_of_c(), p.c_dtype);
  return part;
}

}  // namespace snug::ops

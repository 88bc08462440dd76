// Sums over rows on CUDA in a fixed order: blocks of rows into fp32 partial sums, then the blocks
// one after another. The bits depend on shapes only.
//
//   cuda_column_sum({.x = dy, .add = sum, .sum = dbias, .scratch = a.workspace.data(), ...},
//                   stream);
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"
#include "ir/type.h"

namespace snug::ops {

// A row is cut into tiles, as even as they can be, so that blocks have the same to read.
constexpr int64_t cuda_column_sum_tiles(int64_t columns) {
  constexpr int64_t kMostColumns = 512;
  return std::max<int64_t>(ceil_div(columns, kMostColumns), 1);
}

// How many blocks of rows: together with the tiles of columns they fill a large GPU once.
constexpr int64_t cuda_column_sum_blocks(int64_t rows, int64_t columns) {
  constexpr int64_t kBlocks = 132, kFewestRows = 32;
  const int64_t wanted = kBlocks / cuda_column_sum_tiles(columns);
  return std::max<int64_t>(std::min(wanted, ceil_div(rows, kFewestRows)), 1);
}

// Bytes.
inline int64_t cuda_column_sum_scratch(int64_t rows, int64_t columns) {
  return checked_mul(cuda_column_sum_blocks(rows, columns) * 4, columns,
                     "the scratch of a column sum");
}

struct CudaColumnSum {
  const void* x = nullptr;    // [rows, columns], x_dtype; gaps between rows may be read
  const void* add = nullptr;  // [columns] or absent, sum_dtype: added to the sum
  void* sum = nullptr;        // [columns], sum_dtype, may be `add`
  void* scratch = nullptr;    // cuda_column_sum_scratch(rows, columns)
  int64_t rows = 0, columns = 0;
  int64_t x_stride = 0;  // elements from a row of x to the next; 0: columns
  Dtype x_dtype = Dtype::bf16, sum_dtype = Dtype::bf16;
};
void cuda_column_sum(const CudaColumnSum& p, void* stream);

// The second half alone, for kernels that make the partial sums on their way: of one array, or of
// two side by side.
struct CudaPartialSums {
  const float* partials = nullptr;             // [blocks, sums, columns]
  const void *add = nullptr, *add2 = nullptr;  // [columns] each or absent, sum_dtype
  void *sum = nullptr, *sum2 = nullptr;        // [columns] each, sum_dtype, may be `add`
  int64_t sums = 1, blocks = 0, columns = 0;
  Dtype sum_dtype = Dtype::bf16;
};
void cuda_add_partials(const CudaPartialSums& p, void* stream);

}  // namespace snug::ops

// Sums over rows in a fixed order: blocks of rows first, then the blocks one after another. Neither
// the sum nor the scratch depends on how many threads there are.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"

namespace snug::ops {

constexpr int64_t kColumnSumBlocks = 32;

inline int64_t column_sum_scratch(int64_t columns) {  // floats
  return checked_mul(kColumnSumBlocks, columns, "the scratch of a column sum");
}

struct ColumnSum {
  const float* x = nullptr;    // [rows, columns]
  const float* add = nullptr;  // [columns] or absent: added to the sum
  float* sum = nullptr;        // [columns], may be `add`
  float* scratch = nullptr;    // column_sum_scratch(columns)
  int64_t rows = 0, columns = 0;
};

inline void column_sum(const ColumnSum& p) {
  const int64_t block = ceil_div(p.rows, kColumnSumBlocks);
#pragma omp parallel for schedule(static)
  for (int64_t b = 0; b < kColumnSumBlocks; ++b) {
    float* partial = p.scratch + b * p.columns;
    std::fill_n(partial, p.columns, 0.0F);
    for (int64_t r = b * block; r < std::min(p.rows, (b + 1) * block); ++r) {
      const float* x = p.x + r * p.columns;
#pragma omp simd
      for (int64_t c = 0; c < p.columns; ++c) partial[c] += x[c];
    }
  }
#pragma omp parallel for simd schedule(static)
  for (int64_t c = 0; c < p.columns; ++c) {
    float sum = p.add != nullptr ? p.add[c] : 0;
    for (int64_t b = 0; b < kColumnSumBlocks; ++b) sum += p.scratch[b * p.columns + c];
    p.sum[c] = sum;
  }
}

}  // namespace snug::ops

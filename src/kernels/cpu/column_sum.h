// Sums over rows in a fixed order: blocks of rows first, then the blocks one after another. Neither
// the sum nor the scratch depends on how many threads there are. Sums are fp32, rounded once.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"
#include "kernels/float_kernels.h"

namespace snug::ops {

constexpr int64_t kColumnSumBlocks = 32;

inline int64_t column_sum_scratch(int64_t columns) {  // floats
  return checked_mul(kColumnSumBlocks, columns, "the scratch of a column sum");
}

struct ColumnSum {
  const void* x = nullptr;    // [rows, columns], x_dtype
  const void* add = nullptr;  // [columns] or absent, sum_dtype: added to the sum
  void* sum = nullptr;        // [columns], sum_dtype, may be `add`
  float* scratch = nullptr;   // column_sum_scratch(columns)
  int64_t rows = 0, columns = 0;
  Dtype x_dtype = Dtype::f32, sum_dtype = Dtype::f32;
};

namespace column_sum_detail {

template <typename T>
void sum_blocks(const ColumnSum& p, const T* x) {
  const int64_t block = ceil_div(p.rows, kColumnSumBlocks);
#pragma omp parallel for schedule(static)
  for (int64_t b = 0; b < kColumnSumBlocks; ++b) {
    float* partial = p.scratch + b * p.columns;
    std::fill_n(partial, p.columns, 0.0F);
    for (int64_t r = b * block; r < std::min(p.rows, (b + 1) * block); ++r) {
      const T* row = x + r * p.columns;
#pragma omp simd
      for (int64_t c = 0; c < p.columns; ++c) partial[c] += static_cast<float>(row[c]);
    }
  }
}

template <typename T>
void add_blocks(const ColumnSum& p, const T* add, T* total) {
#pragma omp parallel for simd schedule(static)
  for (int64_t c = 0; c < p.columns; ++c) {
    float sum = add != nullptr ? static_cast<float>(add[c]) : 0;
    for (int64_t b = 0; b < kColumnSumBlocks; ++b) sum += p.scratch[b * p.columns + c];
    store(total[c], sum);
  }
}

}  // namespace column_sum_detail

inline void column_sum(const ColumnSum& p) {
  visit_float(p.x_dtype, [&](auto zero) {
    column_sum_detail::sum_blocks(p, static_cast<const decltype(zero)*>(p.x));
  });
  visit_float(p.sum_dtype, [&](auto zero) {
    using T = decltype(zero);
    column_sum_detail::add_blocks(p, static_cast<const T*>(p.add), static_cast<T*>(p.sum));
  });
}

}  // namespace snug::ops

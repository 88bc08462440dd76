// One row of logits on the CPU: its largest, its exponentials, their sum. Floats are added within a
// block, blocks in double, so a vocabulary of 150,000 loses nothing.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/vec_math.h"

namespace snug::ops {

// A nan is passed over here; it comes back through the sum.
template <typename T>
float row_max(const T* x, int64_t V) {
  float max = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : max)
  for (int64_t v = 0; v < V; ++v) {
    const auto logit = static_cast<float>(x[v]);
    max = logit > max ? logit : max;
  }
  return max;
}

// The sum of term(v) for v < V, where a term is a float.
template <typename Term>
double row_sum(int64_t V, Term term) {
  constexpr int64_t kBlock = 2048;
  double total = 0;
  for (int64_t first = 0; first < V; first += kBlock) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t v = first; v < std::min(V, first + kBlock); ++v) sum += term(v);
    total += static_cast<double>(sum);
  }
  return total;
}

// The logit of a row's target; nan for one beyond the vocabulary, so that bad data is loud and
// reads nothing.
template <typename T>
double logit_of(const T* x, int64_t V, int32_t target) {
  return target < V ? static_cast<double>(x[target]) : std::numeric_limits<double>::quiet_NaN();
}

// One after another: the same bits on any number of threads.
inline double sum_in_order(const double* row_loss, int64_t rows) {
  double sum = 0;
  for (int64_t r = 0; r < rows; ++r) sum += row_loss[r];
  return sum;
}

}  // namespace snug::ops

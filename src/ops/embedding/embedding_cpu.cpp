#include "ops/embedding/embedding_cpu.h"

#include <omp.h>

#include "ops/column_sum.h"
#include "ops/embedding/padding.h"
#include "ops/for_blocks.h"

namespace snug::ops {
namespace {

// The sum that the output starts from, or zeros.
void start_from(const float* sum, float* out, int64_t n) {
  if (sum != nullptr) return copy_elements(sum, out, n);
  for_blocks(n, [=](int64_t begin, int64_t end) { std::fill(out + begin, out + end, 0.0F); });
}

void add_row(const float* from, float* to, int64_t begin, int64_t end) {
#pragma omp simd
  for (int64_t c = begin; c < end; ++c) to[c] += from[c];
}

}  // namespace

void embedding_cpu(const KernelArgs& a) {
  const int64_t T = a.in(1).shape().back();
  const int64_t rows = a.in(1).elements();
  const int64_t C = a.in(0).shape().back();
  const float* table = a.in<float>(0);       // [V, C]
  const int32_t* tokens = a.in<int32_t>(1);  // [B, T]
  const float* positions = a.in<float>(2);   // [P, C] or absent
  const float* types = a.in<float>(3);       // [N, C] or absent
  float* y = a.out<float>(0);                // [B, T, C]
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < rows; ++r) {
    float* yr = y + r * C;
    std::copy_n(table + tokens[r] * C, C, yr);
    if (positions != nullptr) add_row(positions + (r % T) * C, yr, 0, C);
    if (types != nullptr) add_row(types, yr, 0, C);
  }
}

// Each thread owns a range of columns and takes the tokens in order: every element is summed in the
// same order whatever the number of threads, and a frequent token does not load one thread more
// than another.
void embedding_grad_cpu(const KernelArgs& a) {
  const int64_t rows = a.in(1).elements();
  const int64_t C = a.in(0).shape().back();
  const float* dy = a.in<float>(0);          // [B, T, C]
  const int32_t* tokens = a.in<int32_t>(1);  // [B, T]
  const int64_t padding = padding_of(a.attrs);
  float* dtable = a.out<float>(0);  // [V, C], may be dtable_sum
  start_from(a.in<float>(2), dtable, a.out(0).elements());
#pragma omp parallel
  {
    constexpr int64_t kCacheLine = 16;  // floats
    const int64_t share = round_up(ceil_div(C, omp_get_num_threads()), kCacheLine);
    const int64_t begin = std::min(C, share * omp_get_thread_num());
    const int64_t end = std::min(C, begin + share);
    for (int64_t r = 0; r < rows; ++r) {
      if (tokens[r] != padding) add_row(dy + r * C, dtable + tokens[r] * C, begin, end);
    }
  }
}

void embedding_grad_positions_cpu(const KernelArgs& a) {
  const Shape& shape = a.in(0).shape();
  const int64_t B = shape[0], T = shape[1], C = shape[2];
  const float* dy = a.in<float>(0);     // [B, T, C]
  float* dpositions = a.out<float>(0);  // [P, C], may be dpositions_sum
  start_from(a.in<float>(1), dpositions, a.out(0).elements());
#pragma omp parallel for schedule(static)
  for (int64_t t = 0; t < T; ++t) {
    for (int64_t b = 0; b < B; ++b) add_row(dy + (b * T + t) * C, dpositions + t * C, 0, C);
  }
}

void embedding_grad_types_cpu(const KernelArgs& a) {
  const int64_t C = a.in(0).shape().back();
  float* dtypes = a.out<float>(0);  // [N, C], may be dtypes_sum
  start_from(a.in<float>(1), dtypes, a.out(0).elements());
  column_sum({.x = a.in<float>(0),
              .add = dtypes,
              .sum = dtypes,
              .scratch = reinterpret_cast<float*>(a.workspace.data()),
              .rows = a.in(0).shape().rows(),
              .columns = C});
}

}  // namespace snug::ops

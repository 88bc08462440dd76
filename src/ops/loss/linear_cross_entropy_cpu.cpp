#include "ops/loss/linear_cross_entropy_cpu.h"

#include "base/units.h"
#include "ops/blas/blas.h"
#include "ops/column_sum.h"
#include "ops/for_blocks.h"
#include "ops/loss/softmax_row.h"

namespace snug::ops {
namespace {

// Byte offsets in the scratch: losses [n] f64, logits [n, V] f32, column sums where a bias wants
// its gradient.
struct Layout {
  int64_t logits, column_sums, end;
};

Layout layout(int64_t n, int64_t V, bool dbias) {
  constexpr int64_t kAlign = 256;
  const char* what = "the logits of a chunk";
  const int64_t logits = round_up(checked_mul(n, size_of(Dtype::f64), what), kAlign);
  const int64_t logit_bytes = checked_mul(checked_mul(n, V, what), size_of(Dtype::f32), what);
  if (!dbias) return {logits, 0, checked_add(logits, logit_bytes, what)};
  const int64_t column_sums = checked_add(logits, round_up(logit_bytes, kAlign), what);
  const int64_t sums = checked_mul(column_sum_scratch(V), size_of(Dtype::f32), what);
  return {logits, column_sums, checked_add(column_sums, sums, what)};
}

// One call of either kernel: its shapes, what both read, and its scratch.
struct Sweep {
  const float* x = nullptr;          // [rows, C]
  const float* weight = nullptr;     // [V, C]
  const float* bias = nullptr;       // [V] or absent
  const int32_t* targets = nullptr;  // [rows]
  int64_t rows = 0, C = 0, V = 0, chunk = 0;
  double* row_loss = nullptr;    // [chunk]
  float* logits = nullptr;       // [chunk, V]
  float* column_sums = nullptr;  // scratch of column_sum, for a bias gradient
};

Sweep sweep_of(const KernelArgs& a, size_t bias, bool dbias) {
  using P = LinearCrossEntropyIn;
  Sweep s;
  s.x = a.in<float>(P::kX);
  s.weight = a.in<float>(P::kWeight);
  s.bias = a.in<float>(bias);
  s.targets = a.in<int32_t>(P::kTargets);
  s.rows = a.in(P::kX).shape().rows();
  s.C = a.in(P::kX).shape().back();
  s.V = a.in(P::kWeight).shape()[0];
  s.chunk = std::min(s.rows, a.attrs.i("chunk"));
  const Layout at = layout(s.chunk, s.V, dbias);
  s.row_loss = reinterpret_cast<double*>(a.workspace.data());
  s.logits = reinterpret_cast<float*>(a.workspace.data() + at.logits);
  s.column_sums = reinterpret_cast<float*>(a.workspace.data() + at.column_sums);
  return s;
}

// The loss of one row, whose logits become exponentials and, with kGradient, dlogits.
template <bool kGradient>
double consume_row(float* x, const float* bias, int64_t V, int32_t target, float dloss) {
  if (target < 0) {
    if constexpr (kGradient) std::fill_n(x, V, 0.0F);
    return 0;
  }
  if (bias != nullptr) {
#pragma omp simd
    for (int64_t v = 0; v < V; ++v) x[v] += bias[v];
  }
  const float max = row_max(x, V);
  const double target_logit = logit_of(x, V, target);
  const double sum = row_sum(V, [=](int64_t v) { return x[v] = fast_exp(x[v] - max); });
  if constexpr (kGradient) {
    const auto scale = static_cast<float>(static_cast<double>(dloss) / sum);
#pragma omp simd
    for (int64_t v = 0; v < V; ++v) x[v] *= scale;
    if (target < V) x[target] -= dloss;
  }
  return static_cast<double>(max) + std::log(sum) - target_logit;
}

// Makes the logits of rows [first, first + n), returns their loss; with kGradient they are dlogits
// after it.
template <bool kGradient>
double consume_chunk(const Sweep& s, int64_t first, int64_t n, float dloss) {
  gemm({.m = n,
        .n = s.V,
        .k = s.C,
        .a = s.x + first * s.C,
        .b = s.weight,
        .c = s.logits,
        .transpose_b = true});
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < n; ++r) {
    s.row_loss[r] =
        consume_row<kGradient>(s.logits + r * s.V, s.bias, s.V, s.targets[first + r], dloss);
  }
  return sum_in_order(s.row_loss, n);
}

// loss = loss_sum (where there is one) + what `consume(first, n)` gives for every chunk, in order.
template <typename Consume>
float sum_chunks(const Sweep& s, const float* loss_sum, const Consume& consume) {
  double loss = loss_sum != nullptr ? static_cast<double>(*loss_sum) : 0;
  for (int64_t first = 0; first < s.rows; first += s.chunk) {
    loss += consume(first, std::min(s.chunk, s.rows - first));
  }
  return static_cast<float>(loss);
}

}  // namespace

int64_t linear_cross_entropy_workspace(int64_t rows, int64_t V, int64_t chunk, bool dbias) {
  return layout(std::min(rows, chunk), V, dbias).end;
}

void linear_cross_entropy_cpu(const KernelArgs& a) {
  using P = LinearCrossEntropyIn;
  const Sweep s = sweep_of(a, P::kBias, /*dbias=*/false);
  *a.out<float>(0) = sum_chunks(s, a.in<float>(P::kLossSum), [&](int64_t first, int64_t n) {
    return consume_chunk<false>(s, first, n, 0);
  });
}

void linear_cross_entropy_grad_cpu(const KernelArgs& a) {
  using P = LinearCrossEntropyGradIn;
  const Sweep s = sweep_of(a, P::kBias, /*dbias=*/a.has(P::kBias));
  const float dloss = *a.in<float>(P::kDloss);
  const float* dx_sum = a.in<float>(P::kDxSum);
  float* dx = a.out<float>(1);       // [rows, C], may be x or dx_sum
  float* dweight = a.out<float>(2);  // [V, C], may be dweight_sum
  if (a.has(P::kDweightSum)) copy_elements(a.in<float>(P::kDweightSum), dweight, s.V * s.C);

  *a.out<float>(0) = sum_chunks(s, a.in<float>(P::kLossSum), [&](int64_t first, int64_t n) {
    const double loss = consume_chunk<true>(s, first, n, dloss);
    const float* dlogits = s.logits;
    gemm({.m = s.V,
          .n = s.C,
          .k = n,
          .a = dlogits,
          .b = s.x + first * s.C,
          .c = dweight,
          .transpose_a = true,
          .accumulate = first > 0 || a.has(P::kDweightSum)});
    if (s.bias != nullptr) {
      float* dbias = a.out<float>(3);
      const float* before = first > 0 ? dbias : a.in<float>(P::kDbiasSum);
      column_sum({.x = dlogits,
                  .add = before,
                  .sum = dbias,
                  .scratch = s.column_sums,
                  .rows = n,
                  .columns = s.V});
    }
    // Last: dx may lie in x, whose rows nothing reads from here on.
    float* dx_rows = dx + first * s.C;
    if (dx_sum != nullptr) copy_elements(dx_sum + first * s.C, dx_rows, n * s.C);
    gemm({.m = n,
          .n = s.C,
          .k = s.V,
          .a = dlogits,
          .b = s.weight,
          .c = dx_rows,
          .accumulate = dx_sum != nullptr});
    return loss;
  });
}

}  // namespace snug::ops

#include "ops/loss/cross_entropy_cpu.h"

#include "base/units.h"
#include "ops/loss/softmax_row.h"

namespace snug::ops {

// One double per row: its loss.
int64_t cross_entropy_workspace(int64_t rows) {
  return checked_mul(rows, size_of(Dtype::f64), "the losses of the rows");
}

void cross_entropy_cpu(const KernelArgs& a) {
  const int64_t V = a.in(0).shape().back();
  const int64_t rows = a.in(0).shape().rows();
  const float* logits = a.in<float>(0);       // [rows, V]
  const int32_t* targets = a.in<int32_t>(1);  // [rows]
  const float* loss_sum = a.in<float>(2);     // [] or absent
  float* lse = a.out<float>(1);               // [rows]
  auto* row_loss = reinterpret_cast<double*>(a.workspace.data());
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < rows; ++r) {
    lse[r] = 0;
    row_loss[r] = 0;
    if (targets[r] < 0) continue;
    const float* x = logits + r * V;
    const float max = row_max(x, V);
    const double sum = row_sum(V, [=](int64_t v) { return fast_exp(x[v] - max); });
    const double log_sum_exp = static_cast<double>(max) + std::log(sum);
    lse[r] = static_cast<float>(log_sum_exp);
    row_loss[r] = log_sum_exp - logit_of(x, V, targets[r]);
  }
  const double before = loss_sum != nullptr ? static_cast<double>(*loss_sum) : 0;
  *a.out<float>(0) = static_cast<float>(before + sum_in_order(row_loss, rows));
}

void cross_entropy_grad_cpu(const KernelArgs& a) {
  const int64_t V = a.in(0).shape().back();
  const int64_t rows = a.in(0).shape().rows();
  const float* logits = a.in<float>(0);       // [rows, V]
  const float* lse = a.in<float>(1);          // [rows]
  const int32_t* targets = a.in<int32_t>(2);  // [rows]
  const float dloss = *a.in<float>(3);
  float* dlogits = a.out<float>(0);  // [rows, V], may be logits
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < rows; ++r) {
    const float* x = logits + r * V;
    float* dx = dlogits + r * V;
    if (targets[r] < 0) {
      std::fill_n(dx, V, 0.0F);
      continue;
    }
#pragma omp simd
    for (int64_t v = 0; v < V; ++v) dx[v] = dloss * fast_exp(x[v] - lse[r]);
    if (targets[r] < V) dx[targets[r]] -= dloss;
  }
}

}  // namespace snug::ops

#include "ops/loss/cross_entropy_cpu.h"

#include <array>

#include "base/units.h"
#include "kernels/float_kernels.h"
#include "ops/loss/softmax_row.h"

namespace snug::ops {
namespace {

template <typename T>
void forward(const KernelArgs& a) {
  const int64_t V = a.in(0).shape().back();
  const int64_t rows = a.in(0).shape().rows();
  const T* logits = a.in<T>(0);               // [rows, V]
  const int32_t* targets = a.in<int32_t>(1);  // [rows]
  const float* loss_sum = a.in<float>(2);     // [] or absent
  float* lse = a.out<float>(1);               // [rows]
  auto* row_loss = reinterpret_cast<double*>(a.workspace.data());
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < rows; ++r) {
    lse[r] = 0;
    row_loss[r] = 0;
    if (targets[r] < 0) continue;
    const T* x = logits + r * V;
    const float max = row_max(x, V);
    const double sum =
        row_sum(V, [=](int64_t v) { return fast_exp(static_cast<float>(x[v]) - max); });
    const double log_sum_exp = static_cast<double>(max) + std::log(sum);
    lse[r] = static_cast<float>(log_sum_exp);
    row_loss[r] = log_sum_exp - logit_of(x, V, targets[r]);
  }
  const double before = loss_sum != nullptr ? static_cast<double>(*loss_sum) : 0;
  *a.out<float>(0) = static_cast<float>(before + sum_in_order(row_loss, rows));
}

// dx = dloss (softmax(x) - [v = target]), a block of floats at a time, so that the target's too is
// rounded once. dx may be x.
template <typename T>
void backward_row(const T* x, float lse, int32_t target, float dloss, int64_t V, T* dx) {
  constexpr int64_t kBlock = 1024;
  std::array<float, kBlock> block;
  for (int64_t first = 0; first < V; first += kBlock) {
    const int64_t n = std::min(kBlock, V - first);
    const T* from = x + first;
    T* to = dx + first;
    float* d = block.data();
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) d[i] = dloss * fast_exp(static_cast<float>(from[i]) - lse);
    if (target >= first && target < first + n) d[target - first] -= dloss;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) store(to[i], d[i]);
  }
}

template <typename T>
void backward(const KernelArgs& a) {
  const int64_t V = a.in(0).shape().back();
  const int64_t rows = a.in(0).shape().rows();
  const T* logits = a.in<T>(0);               // [rows, V]
  const float* lse = a.in<float>(1);          // [rows]
  const int32_t* targets = a.in<int32_t>(2);  // [rows]
  const float dloss = *a.in<float>(3);
  T* dlogits = a.out<T>(0);  // [rows, V], may be logits
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < rows; ++r) {
    if (targets[r] < 0) {
      std::fill_n(dlogits + r * V, V, T{});
    } else {
      backward_row(logits + r * V, lse[r], targets[r], dloss, V, dlogits + r * V);
    }
  }
}

}  // namespace

// One double per row: its loss.
int64_t cross_entropy_workspace(int64_t rows) {
  return checked_mul(rows, size_of(Dtype::f64), "the losses of the rows");
}

void cross_entropy_cpu(const KernelArgs& a) {
  visit_float(a.in(0).type->dtype, [&](auto zero) { forward<decltype(zero)>(a); });
}

void cross_entropy_grad_cpu(const KernelArgs& a) {
  visit_float(a.in(0).type->dtype, [&](auto zero) { backward<decltype(zero)>(a); });
}

}  // namespace snug::ops

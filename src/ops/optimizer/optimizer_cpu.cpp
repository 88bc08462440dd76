#include "ops/optimizer/optimizer_cpu.h"

#include <cmath>

#include "base/units.h"
#include "ops/for_blocks.h"

namespace snug::ops {
namespace {

// Fixed, so that neither the sum nor the scratch depends on the threads; 64 Ki floats keep the
// scratch of a 70B model at 9 MiB.
constexpr int64_t kSumBlock = 65536;

double block_sum_squares(const float* x, int64_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

}  // namespace

void adamw_cpu(const KernelArgs& a) {
  const float* grad = a.in<float>(1);
  float* param = a.out<float>(0);  // each is its own input
  float* m = a.out<float>(1);
  float* v = a.out<float>(2);
  const double lr = static_cast<double>(*a.in<float>(4));
  const auto step = static_cast<double>(*a.in<int64_t>(5));
  const float scale = *a.in<float>(6);
  const double beta1 = a.attrs.f("beta1");
  const double beta2 = a.attrs.f("beta2");
  // What is the same for every element is made once, in double.
  const auto keep = static_cast<float>(1 - lr * a.attrs.f("weight_decay"));
  const auto step_size = static_cast<float>(lr / (1 - std::pow(beta1, step)));
  const auto per_root = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, step)));
  const auto eps = static_cast<float>(a.attrs.f("eps"));
  const auto new1 = static_cast<float>(1 - beta1);
  const auto new2 = static_cast<float>(1 - beta2);
  const auto old2 = static_cast<float>(beta2);
  for_blocks(a.in(0).elements(), [=](int64_t begin, int64_t end) {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) {
      const float g = grad[i] * scale;
      m[i] += new1 * (g - m[i]);
      v[i] = old2 * v[i] + new2 * g * g;
      param[i] = keep * param[i] - step_size * (m[i] / (std::sqrt(v[i]) * per_root + eps));
    }
  });
}

int64_t sum_squares_workspace(const OpView& op) {
  int64_t blocks = 0;
  for (const Type* grad : op.inputs) blocks += ceil_div(grad->shape.elements(), kSumBlock);
  return checked_mul(blocks, size_of(Dtype::f64), op.name);
}

void sum_squares_cpu(const KernelArgs& a) {
  auto* partial = reinterpret_cast<double*>(a.workspace.data());
  int64_t blocks = 0;
#pragma omp parallel reduction(max : blocks)
  {
    int64_t first = 0;  // of this gradient, among all blocks
    for (const Tensor& grad : a.inputs) {
      const float* x = grad.as<const float>();
      const int64_t n = grad.elements();
      const int64_t count = ceil_div(n, kSumBlock);
#pragma omp for schedule(static) nowait
      for (int64_t b = 0; b < count; ++b) {
        partial[first + b] =
            block_sum_squares(x + b * kSumBlock, std::min(kSumBlock, n - b * kSumBlock));
      }
      first += count;
    }
    blocks = first;
  }
  double sum = 0;
  for (int64_t b = 0; b < blocks; ++b) sum += partial[b];
  *a.out<double>(0) = sum;
}

void clip_cpu(const KernelArgs& a) {
  const auto max_norm = static_cast<float>(a.attrs.f("max_norm"));
  const auto norm = static_cast<float>(std::sqrt(*a.in<double>(0)));
  const bool finite = std::isfinite(norm);
  *a.out<float>(0) = norm;
  *a.out<float>(1) = max_norm > 0 && finite ? std::min(1.0F, max_norm / (norm + 1e-6F)) : 1;
  *a.out<int32_t>(2) = finite ? 1 : 0;
}

void advance_cpu(const KernelArgs& a) { *a.out<int64_t>(0) = *a.in<int64_t>(0) + 1; }

}  // namespace snug::ops

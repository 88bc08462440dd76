#include "ops/optimizer/optimizer_cpu.h"

#include <cmath>

#include "kernels/float_kernels.h"
#include "ops/optimizer/sum_blocks.h"

namespace snug::ops {
namespace {

template <typename T>
double block_sum_squares(const T* x, int64_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) {
    const auto g = static_cast<double>(static_cast<float>(x[i]));
    sum += g * g;
  }
  return sum;
}

// Elements [begin, end) of a gradient of any type.
double sum_squares_of(const Tensor& grad, int64_t begin, int64_t end) {
  return visit_float(grad.type->dtype, [&](auto zero) {
    return block_sum_squares(grad.as<const decltype(zero)>() + begin, end - begin);
  });
}

}  // namespace

int64_t sum_squares_workspace(const OpView& op) {
  int64_t blocks = 0;
  for (const Type* grad : op.inputs) blocks += sum_blocks(grad->shape.elements());
  return checked_mul(blocks, size_of(Dtype::f64), op.name);
}

void sum_squares_cpu(const KernelArgs& a) {
  auto* partial = reinterpret_cast<double*>(a.workspace.data());
  int64_t blocks = 0;
#pragma omp parallel reduction(max : blocks)
  {
    int64_t first = 0;  // of this gradient, among all blocks
    for (const Tensor& grad : a.inputs) {
      const int64_t n = grad.elements();
      const int64_t count = sum_blocks(n);
#pragma omp for schedule(static) nowait
      for (int64_t b = 0; b < count; ++b)
        partial[first + b] = sum_squares_of(grad, b * kSumBlock, std::min(n, (b + 1) * kSumBlock));
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
  const float loss_scale = a.has(0) ? *a.in<float>(0) : 1;
  double sum = 0;
  for (const Tensor& part : a.inputs.subspan(2)) sum += *part.as<const double>();
  const auto norm = static_cast<float>(std::sqrt(sum) / static_cast<double>(loss_scale));
  const bool finite = std::isfinite(norm) && (!a.has(1) || std::isfinite(*a.in<float>(1)));
  const float factor = max_norm > 0 && finite ? std::min(1.0F, max_norm / (norm + 1e-6F)) : 1;
  *a.out<float>(0) = norm;
  *a.out<float>(1) = factor / loss_scale;
  *a.out<int32_t>(2) = finite ? 1 : 0;
}

void advance_cpu(const KernelArgs& a) { *a.out<int64_t>(0) = *a.in<int64_t>(0) + 1; }

}  // namespace snug::ops

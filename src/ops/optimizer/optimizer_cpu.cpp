#include "ops/optimizer/optimizer_cpu.h"

#include <array>
#include <cmath>

#include "kernels/float_kernels.h"
#include "ops/optimizer/sum_blocks.h"

namespace snug::ops {
namespace {

template <typename T>
double sum_block(const T* x, int64_t n) {
  constexpr int64_t kSize = 16 / sizeof(T), kSlots = kSumVectors * kSize;
  std::array<double, kSlots> slots{};
  for (int64_t row = 0; row < n; row += kSlots) {
    const int64_t count = std::min(kSlots, n - row);
    for (int64_t i = 0; i < count; ++i) {
      const auto g = static_cast<double>(static_cast<float>(x[row + i]));
      slots[i] += g * g;  // the square is exact
    }
  }
  std::array<double, kSumVectors> vectors{};
  for (int64_t i = 0; i < kSlots; ++i) vectors[i / kSize] += slots[i];
  return sum_as_threads(vectors);
}

}  // namespace

double sum_as_threads(std::span<double> x) {
  double sum = 0;
  for (size_t warp = 0; warp < x.size(); warp += 32) {
    for (size_t half = 16; half > 0; half /= 2) {
      for (size_t i = warp; i < warp + half; ++i) x[i] += x[i + half];
    }
    sum += x[warp];
  }
  return sum;
}

void sum_squares_cpu(const KernelArgs& a) {
  auto* sums = a.out<double>(0);
  const int64_t n = a.in(0).elements(), blocks = sum_blocks(n);
  visit_float(a.in(0).type->dtype, [&](auto zero) {
    const auto* x = a.in<decltype(zero)>(0);
#pragma omp parallel for schedule(static) if (blocks > 1)
    for (int64_t b = 0; b < blocks; ++b)
      sums[b] = sum_block(x + b * kSumBlock, std::min(kSumBlock, n - b * kSumBlock));
  });
}

void clip_cpu(const KernelArgs& a) {
  const auto max_norm = static_cast<float>(a.attrs.f("max_norm"));
  const float loss_scale = a.has(0) ? *a.in<float>(0) : 1;
  std::array<double, kClipSlots> slots{};
  size_t at = 0;
  for (const Tensor& squares : a.inputs.subspan(2)) {
    for (int64_t b = 0; b < squares.elements(); ++b)
      slots[at++ % kClipSlots] += squares.as<const double>()[b];
  }
  const double sum = sum_as_threads(slots);
  const auto norm = static_cast<float>(std::sqrt(sum) / static_cast<double>(loss_scale));
  const bool finite = std::isfinite(norm) && (!a.has(1) || std::isfinite(*a.in<float>(1)));
  const float factor = max_norm > 0 && finite ? std::min(1.0F, max_norm / (norm + 1e-6F)) : 1;
  *a.out<float>(0) = norm;
  *a.out<float>(1) = factor / loss_scale;
  *a.out<int32_t>(2) = finite ? 1 : 0;
}

void advance_cpu(const KernelArgs& a) { *a.out<int64_t>(0) = *a.in<int64_t>(0) + 1; }

}  // namespace snug::ops

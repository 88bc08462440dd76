#include <algorithm>

#include "base/units.h"
#include "kernels/cpu/mask_bits.h"
#include "kernels/float_kernels.h"
#include "ops/activation/activation_cpu.h"
#include "ops/random.h"

namespace snug::ops {
namespace {

constexpr auto kTile = static_cast<int64_t>(kMaskBits);

struct Mask {
  Key key;
  uint32_t threshold;
  float scale;
};

// Elements [begin, end) of one sample; begin is a multiple of 8.
template <typename T>
void apply(Mask mask, uint64_t sample, const T* x, T* y, int64_t begin, int64_t end) {
  uint16_t bits[kTile];
  for (int64_t at = begin; at < end; at += kTile) {
    mask_bits(mask.key, static_cast<uint64_t>(at / 8), sample, bits);
    const int64_t n = std::min(kTile, end - at);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const float scaled = x[at + i] * mask.scale;
      store(y[at + i], bits[i] >= mask.threshold ? scaled : 0.0F);
    }
  }
}

template <typename T>
void dropout(const KernelArgs& a) {
  auto scalar = [&](size_t port) { return *a.in(port).as<const int64_t>(); };
  const double p = a.attrs.f("p");
  const Mask mask{op_key(scalar(1), scalar(2), a.attrs), drop_threshold(p),
                  static_cast<float>(drop_scale(p))};
  const auto first_sample = static_cast<uint64_t>(scalar(3));
  const T* x = a.in<T>(0);  // [B, ...]
  T* y = a.out<T>(0);       // may be x
  const int64_t B = a.in(0).shape()[0];
  const int64_t per_sample = a.in(0).elements() / std::max<int64_t>(B, 1);
  constexpr int64_t kBlock = 4096;
  const int64_t blocks = ceil_div(per_sample, kBlock);
#pragma omp parallel for collapse(2) schedule(static)
  for (int64_t b = 0; b < B; ++b) {
    for (int64_t block = 0; block < blocks; ++block) {
      apply(mask, first_sample + static_cast<uint64_t>(b), x + b * per_sample, y + b * per_sample,
            block * kBlock, std::min(per_sample, (block + 1) * kBlock));
    }
  }
}

}  // namespace

void dropout_cpu(const KernelArgs& a) {
  visit_float(a.in(0).type->dtype, [&](auto zero) { dropout<decltype(zero)>(a); });
}

}  // namespace snug::ops

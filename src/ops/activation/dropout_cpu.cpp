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

// Elements [begin, end) of one sample, of which x and y hold those from `begin` on.
template <typename T>
void apply(Mask mask, uint64_t sample, const T* x, T* y, int64_t begin, int64_t end) {
  uint16_t bits[kTile];
  for (int64_t at = begin / 8 * 8; at < end; at += kTile) {
    mask_bits(mask.key, static_cast<uint64_t>(at / 8), sample, bits);
    const int64_t from = std::max(begin, at), n = std::min(at + kTile, end) - from;
    const uint16_t* drawn = bits + (from - at);
    const T* in = x + (from - begin);
    T* out = y + (from - begin);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const float scaled = in[i] * mask.scale;
      store(out[i], drawn[i] >= mask.threshold ? scaled : 0.0F);
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
  const DrawnRows rows = DrawnRows::of(a.in(0).shape(), a.attrs);
  constexpr int64_t kBlock = 4096;
#pragma omp parallel for schedule(static)
  for (int64_t first = 0; first < a.in(0).elements(); first += kBlock) {
    const DrawnRows block{rows.first + first, rows.per_sample};
    block.for_samples(std::min(kBlock, a.in(0).elements() - first),
                      [&](int64_t b, int64_t begin, int64_t at, int64_t n) {
                        apply(mask, first_sample + static_cast<uint64_t>(b), x + first + at,
                              y + first + at, begin, begin + n);
                      });
  }
}

}  // namespace

void dropout_cpu(const KernelArgs& a) {
  visit_float(a.in(0).type->dtype, [&](auto zero) { dropout<decltype(zero)>(a); });
}

}  // namespace snug::ops

#include "kernels/cuda/mask_bits.cuh"
#include "kernels/cuda/rows.cuh"
#include "ops/activation/activation_cuda.h"
#include "ops/random.h"

namespace snug::ops {
namespace {

enum In : size_t { kX, kSeed, kStep, kSample };

template <typename T>
struct Dropout {
  const T* x;  // [B, per_sample]
  T* y;        // may be x
  const int64_t *seed, *step, *sample;
  uint64_t name;
  int64_t per_sample;
  uint32_t threshold;
  float scale;
};

constexpr int kPerThread = 2;

template <typename T, typename V>
__global__ void __launch_bounds__(RowTiles::kMostThreads) dropout(Dropout<T> p, unsigned tiles) {
  const auto [row, first] = row_place<kPerThread>(tiles);
  const int64_t vectors = p.per_sample / V::kSize;
  const int64_t start = row * p.per_sample;
  V x[kPerThread];
  for_tile_vectors<V, kPerThread>(
      first, vectors, [&](int k, int64_t at) { x[k] = V::load_once(p.x + start + at); });
  const auto sample = static_cast<uint64_t>(*p.sample + row);
  const Key key =
      random_key(static_cast<uint64_t>(*p.seed), static_cast<uint64_t>(*p.step), p.name);
  for_tile_vectors<V, kPerThread>(first, vectors, [&](int k, int64_t at) {
    const MaskBits bits(key, static_cast<uint64_t>(at) / 8, sample);
    V y;
    if constexpr (V::kSize == 8) {
#pragma unroll
      for (int i = 0; i < 8; ++i) y.set(i, bits.keeps(i, p.threshold) ? x[k][i] * p.scale : 0.0F);
    } else {
      const uint32_t kept = bits.kept(p.threshold) >> (at % 8);
#pragma unroll
      for (int i = 0; i < V::kSize; ++i) y.set(i, (kept >> i & 1) != 0 ? x[k][i] * p.scale : 0.0F);
    }
    y.store(p.y + start + at);
  });
}

}  // namespace

void dropout_cuda(const KernelArgs& a) {
  if (a.in(kX).elements() == 0) return;
  const double drop = a.attrs.f("p");
  const int64_t B = a.in(kX).shape()[0];
  visit_device_float(a.in(kX).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    const Dropout<T> p{.x = a.in<T>(kX),
                       .y = a.out<T>(0),
                       .seed = a.in<int64_t>(kSeed),
                       .step = a.in<int64_t>(kStep),
                       .sample = a.in<int64_t>(kSample),
                       .name = hash_name(a.attrs.s("key")),
                       .per_sample = a.in(kX).elements() / B,
                       .threshold = drop_threshold(drop),
                       .scale = static_cast<float>(drop_scale(drop))};
    visit_width<T>(p.per_sample, [&](auto access) {
      using V = decltype(access);
      const RowTiles tiles = row_tiles<kPerThread>(B, p.per_sample / V::kSize);
      dropout<T, V><<<tiles.blocks, tiles.threads, 0, stream_of(a)>>>(p, tiles.tiles);
    });
  });
  check_launch("dropout");
}

}  // namespace snug::ops

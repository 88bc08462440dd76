#include <numeric>

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
  int64_t first_sample, first_element;  // of x
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
  const auto sample = static_cast<uint64_t>(*p.sample + p.first_sample + row);
  const Key key =
      random_key(static_cast<uint64_t>(*p.seed), static_cast<uint64_t>(*p.step), p.name);
  for_tile_vectors<V, kPerThread>(first, vectors, [&](int k, int64_t at) {
    const int64_t element = p.first_element + at;
    const MaskBits bits(key, static_cast<uint64_t>(element) / 8, sample);
    V y;
    if constexpr (V::kSize == 8) {
#pragma unroll
      for (int i = 0; i < 8; ++i) y.set(i, bits.keeps(i, p.threshold) ? x[k][i] * p.scale : 0.0F);
    } else {
      const uint32_t kept = bits.kept(p.threshold) >> (element % 8);
#pragma unroll
      for (int i = 0; i < V::kSize; ++i) y.set(i, (kept >> i & 1) != 0 ? x[k][i] * p.scale : 0.0F);
    }
    y.store(p.y + start + at);
  });
}

// Of `samples` whose elements are all here, or of a part of one, from element `at` on.
template <typename T>
void launch(Dropout<T> p, int64_t samples, int64_t at, cudaStream_t stream) {
  visit_width<T>(std::gcd(std::gcd(p.per_sample, p.first_element), at), [&](auto access) {
    using V = decltype(access);
    const RowTiles tiles = row_tiles<kPerThread>(samples, p.per_sample / V::kSize);
    dropout<T, V><<<tiles.blocks, tiles.threads, 0, stream>>>(p, tiles.tiles);
  });
}

}  // namespace

void dropout_cuda(const KernelArgs& a) {
  if (a.in(kX).elements() == 0) return;
  const double drop = a.attrs.f("p");
  const DrawnRows rows = DrawnRows::of(a.in(kX).shape(), a.attrs);
  visit_device_float(a.in(kX).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    Dropout<T> p{.x = a.in<T>(kX),
                 .y = a.out<T>(0),
                 .seed = a.in<int64_t>(kSeed),
                 .step = a.in<int64_t>(kStep),
                 .sample = a.in<int64_t>(kSample),
                 .name = hash_name(a.attrs.s("key")),
                 .per_sample = rows.per_sample,
                 .first_sample = 0,
                 .first_element = 0,
                 .threshold = drop_threshold(drop),
                 .scale = static_cast<float>(drop_scale(drop))};
    if (!a.attrs.has("rows")) return launch(p, a.in(kX).elements() / p.per_sample, 0, stream_of(a));
    const Dropout<T> all = p;
    rows.for_samples(a.in(kX).elements(), [&](int64_t b, int64_t begin, int64_t at, int64_t n) {
      p.x = all.x + at;
      p.y = all.y + at;
      p.per_sample = n;
      p.first_sample = b;
      p.first_element = begin;
      launch(p, 1, at, stream_of(a));
    });
  });
  check_launch("dropout");
}

}  // namespace snug::ops

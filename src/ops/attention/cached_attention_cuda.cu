#include "kernels/cuda/launch.cuh"
#include "ops/attention/attention_cpu.h"
#include "ops/attention/cached_attention_cuda.h"
#include "ops/attention/key_value_cache.h"

namespace snug::ops {
namespace {

constexpr int kWriters = 128;

// A block for each new token.
template <typename T>
__global__ void __launch_bounds__(kWriters) write_tokens(const Caches<T> a) {
  after_previous();
  const PackedHeads& p = a.c.p;
  const int64_t b = blockIdx.x / p.T, t = blockIdx.x % p.T;
  const int64_t to = a.c.at(b, a.c.position(b, t), 0);
  for (int64_t i = threadIdx.x; i < p.K * p.D; i += kWriters) {
    a.keys[to + i] = a.qkv[p.k(b, t, 0) + i];
    a.values[to + i] = a.qkv[p.v(b, t, 0) + i];
  }
}

constexpr int kWarps = 8;
constexpr int kPerLane = kMaxHeadDim / 32;

// What a warp knows of the keys that it has seen. Lane l holds elements l, l + 32, ... of the mean.
struct Mean {
  float max = -INFINITY, sum = 0;
  float y[kPerLane] = {};

  __device__ void shrink(float factor) {
    sum *= factor;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) y[i] *= factor;
  }
  // The same of another warp; a warp that saw no key has a maximum of -inf.
  __device__ void add(float other_max, float other_sum, const float* other_y, int lane, int64_t D) {
    const float top = fmaxf(max, other_max);
    if (top == -INFINITY) return;
    shrink(expf(max - top));
    max = top;
    const float factor = expf(other_max - top);
    sum += other_sum * factor;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i)
      if (lane + 32 * i < D) y[i] += other_y[lane + 32 * i] * factor;
  }
};

// A block for each query of each head. Warps take keys in turn; the first one then adds up what all
// have, in a fixed order.
template <typename T>
__global__ void __launch_bounds__(kWarps * 32) attend(const Caches<T> a) {
  after_previous();
  __shared__ float maxima[kWarps], sums[kWarps], means[kWarps][kMaxHeadDim];
  const PackedHeads& p = a.c.p;
  const int64_t h = blockIdx.x % p.H, token = blockIdx.x / p.H;
  const int64_t b = token / p.T, t = token % p.T;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t last = a.c.position(b, t);
  float q[kPerLane];
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const int d = lane + 32 * i;
    q[i] = d < p.D ? to_float(a.qkv[p.q(b, t, h) + d]) * a.scale : 0;
  }
  Mean mean;
  for (int64_t j = a.c.first(last) + warp; j <= last; j += kWarps) {
    const int64_t at = a.c.at(b, j, h / p.group());
    float dot = 0;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i)
      if (lane + 32 * i < p.D) dot += q[i] * to_float(a.keys[at + lane + 32 * i]);
    const float score = warp_sum(dot);
    const float top = fmaxf(mean.max, score);
    mean.shrink(expf(mean.max - top));
    mean.max = top;
    const float weight = expf(score - top);
    mean.sum += weight;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i)
      if (lane + 32 * i < p.D) mean.y[i] += weight * to_float(a.values[at + lane + 32 * i]);
  }
#pragma unroll
  for (int i = 0; i < kPerLane; ++i)
    if (lane + 32 * i < p.D) means[warp][lane + 32 * i] = mean.y[i];
  if (lane == 0) {
    maxima[warp] = mean.max;
    sums[warp] = mean.sum;
  }
  __syncthreads();
  if (warp != 0) return;
  for (int w = 1; w < kWarps; ++w) mean.add(maxima[w], sums[w], means[w], lane, p.D);
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const int d = lane + 32 * i;
    if (d < p.D) a.y[p.y(b, t, h) + d] = from_float<T>(mean.y[i] / mean.sum);
  }
}

}  // namespace

void cached_attention_cuda(const KernelArgs& a) {
  const KeyValueCache c = key_value_cache(a);
  const auto tokens = static_cast<unsigned>(c.p.B * c.p.T);
  visit_device_float(a.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    const Caches<T> caches{.c = c,
                           .scale = score_scale(c.p, a.attrs),
                           .qkv = a.in<T>(0),
                           .keys = a.out<T>(1),
                           .values = a.out<T>(2),
                           .y = a.out<T>(0)};
    launch_after_previous(write_tokens<T>, tokens, kWriters, 0, stream_of(a), caches);
    launch_after_previous(attend<T>, static_cast<unsigned>(tokens * c.p.H), kWarps * 32, 0,
                          stream_of(a), caches);
  });
}

}  // namespace snug::ops

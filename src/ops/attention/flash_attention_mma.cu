// Forward of the flash kind on tensor cores: halves, with dropout and without.
#include "ops/attention/attention_cuda.h"
#include "ops/attention/attention_mma.cuh"

namespace snug::ops {
namespace {

template <typename T>
struct Forward {
  PackedHeads p;
  CudaDropout dropout;
  bool causal;
  float scale;   // 1 / sqrt(D)
  const T* qkv;  // [B, T, (H+2K)*D]
  T* y;          // [B, T, H*D]
  float* lse;    // [B, H, T]
};

template <typename T, int kD>
struct ForwardTiles {
  using Queries = MmaTile<T, kMmaOwned<kD>, kD>;
  using Keys = MmaTile<T, kMmaWalked, kD>;
  static constexpr int kBytes = Queries::kBytes + 4 * Keys::kBytes;
  uint32_t at;

  __device__ Queries queries() const { return {at}; }
  __device__ Keys keys(int buffer) const { return {at + Queries::kBytes + buffer * Keys::kBytes}; }
  __device__ Keys values(int buffer) const { return keys(2 + buffer); }
};

// The maximum and the sum of row g, or g + 8, over all keys so far; the sum is the lane's own part
// until the end.
struct RowSoftmax {
  float max = -INFINITY, sum = 0;
};

// Over the four lanes that hold a row.
__device__ float over_row(float x, float (*join)(float, float)) {
  x = join(x, __shfl_xor_sync(~0U, x, 1));
  return join(x, __shfl_xor_sync(~0U, x, 2));
}
__device__ float larger(float a, float b) { return fmaxf(a, b); }
__device__ float plus(float a, float b) { return a + b; }

// All of y and lse for one tile of queries of one head.
template <typename T, int kD, bool kDropout>
__global__ void __launch_bounds__(kMmaThreads, 2) attend(const Forward<T> f) {
  constexpr int kResults = kMmaResults<kD>;
  constexpr int kOwned = kMmaOwned<kD>;
  constexpr int kColumns = kMmaWalked / 8;  // results side by side
  extern __shared__ __align__(128) float shared[];
  const ForwardTiles<T, kD> tiles{shared_address(shared)};

  const PackedHeads& p = f.p;
  const HeadShape shape(p);
  const int64_t blocks = ceil_div(p.T, kOwned);
  const TileTask task(p.H, blocks);
  const int i0 = static_cast<int>(blocks - 1 - task.tile) * kOwned;  // longest first
  const int rows = min(kOwned, shape.T - i0);
  const int seen = f.causal ? i0 + rows : shape.T;
  const int64_t kv = task.h / p.group();
  const DropoutFactors dropout(f.dropout, task.b);
  const int own = 16 * kResults * warp();  // this warp's first row
  const float scale = f.scale * kLog2e;

  const auto start_keys = [&](int j0, int buffer) {
    const int n = min(kMmaWalked, shape.T - j0);
    tiles.keys(buffer).template start_load<KeyColumns>(f.qkv + p.k(task.b, j0, kv), shape.width, n,
                                                       shape.D);
    tiles.values(buffer).template start_load<KeyColumns>(f.qkv + p.v(task.b, j0, kv), shape.width,
                                                         n, shape.D);
    close_batch();
  };

  tiles.queries().template start_load<InOrder>(f.qkv + p.q(task.b, i0, task.h), shape.width, rows,
                                               shape.D);
  start_keys(0, 0);

  uint32_t queries[kResults][kD / 16][4];
  MmaSums<T, kD> y[kResults];
  RowSoftmax softmax[kResults][2];
  int buffer = 0;
  for (int j0 = 0; j0 < seen; j0 += kMmaWalked, buffer ^= 1) {
    if (j0 + kMmaWalked < seen) {
      start_keys(j0 + kMmaWalked, buffer ^ 1);
      wait_batches<1>();
    } else {
      wait_batches<0>();
    }
    __syncthreads();
    if (j0 == 0) {
#pragma unroll
      for (int m = 0; m < kResults; ++m) {
#pragma unroll
        for (int step = 0; step < kD / 16; ++step)
          tiles.queries().left(queries[m][step], own + 16 * m, step);
      }
    }
    // Keys that no query of this warp sees are left to others.
    if (!f.causal || j0 <= i0 + own + 16 * kResults - 1) {
      float scores[kResults][kColumns][4] = {};
#pragma unroll
      for (int step = 0; step < kD / 16; ++step) {
#pragma unroll
        for (int c = 0; c < kColumns; c += 2) {
          uint32_t keys[4];
          tiles.keys(buffer).right(keys, 8 * c, step);
#pragma unroll
          for (int m = 0; m < kResults; ++m) {
            multiply_add<T>(scores[m][c], queries[m][step], keys[0], keys[1]);
            multiply_add<T>(scores[m][c + 1], queries[m][step], keys[2], keys[3]);
          }
        }
      }
      Kept<kDropout ? 8 * kResults : 1> keep;
      if constexpr (kDropout) {
        const uint64_t first = static_cast<uint64_t>(task.h * p.T + i0 + own + lane_row()) * p.T +
                               j0 + 4 * lane_column();
        keep = kept<8 * kResults>(dropout, shape.T % 4 == 0, [&](int row) {
          return first + row / 4 * (8 * static_cast<uint64_t>(shape.T)) + row % 4 * 16;
        });
      }
      const bool all_seen =
          j0 + kMmaWalked <= shape.T && (!f.causal || j0 + kMmaWalked - 1 <= i0 + own);
#pragma unroll
      for (int m = 0; m < kResults; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int query = i0 + own + 16 * m + 8 * half + lane_row();
          RowSoftmax& row = softmax[m][half];
          float top = row.max;
#pragma unroll
          for (int c = 0; c < kColumns; ++c) {
#pragma unroll
            for (int e = 0; e < 2; ++e) {
              float& score = scores[m][c][2 * half + e];
              if (!all_seen) {
                const int key = j0 + c / 2 * 16 + 4 * lane_column() + c % 2 * 2 + e;
                if (key >= shape.T || (f.causal && key > query)) score = -INFINITY;
              }
              top = fmaxf(top, score);
            }
          }
          top = over_row(top, larger);
          if (__any_sync(~0U, top > row.max)) {
            const float rescale = power_of_two((row.max - top) * scale);
            row.max = top;
            row.sum *= rescale;
            y[m].scale(half, rescale);
          }
          const float base = top * scale;
#pragma unroll
          for (int c = 0; c < kColumns; c += 2) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
              float& score = scores[m][c + e / 2][2 * half + e % 2];
              score = power_of_two(score * scale - base);
              row.sum += score;
              if constexpr (kDropout) {
                if (!keep.at(8 * m + 4 * half + c / 2, e)) score = 0;
              }
            }
          }
        }
      }
#pragma unroll
      for (int c = 0; c < kColumns; c += 2) {
        uint32_t weights[kResults][4];
#pragma unroll
        for (int m = 0; m < kResults; ++m)
          as_operand<T>(weights[m], scores[m][c], scores[m][c + 1]);
        add_products(y, weights, tiles.values(buffer), 8 * c);
      }
    }
    __syncthreads();  // this buffer is read
  }
#pragma unroll
  for (int m = 0; m < kResults; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = i0 + own + 16 * m + 8 * half + lane_row();
      const float sum = over_row(softmax[m][half].sum, plus);
      if (query >= shape.T) continue;
      y[m].scale(half, (kDropout ? dropout.scale : 1.0F) / sum);
      if (lane_column() == 0)
        f.lse[(task.b * p.H + task.h) * shape.T + query] =
            softmax[m][half].max * f.scale + logf(sum);
      y[m].store(half, f.y + p.y(task.b, query, task.h), shape.D);
    }
  }
}

}  // namespace

void mma_flash_attention(const KernelArgs& a) {
  visit_device_half(a.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    const PackedHeads p = packed_heads(a.in(0).shape(), a.attrs);
    const Forward<T> f{
        p,          cuda_dropout(a, 1), a.attrs.b("causal"), 1 / std::sqrt(static_cast<float>(p.D)),
        a.in<T>(0), a.out<T>(0),        a.out<float>(1)};
    visit_mma_head_dim(p.D, [&](auto width) {
      constexpr int kD = decltype(width)::value;
      launch_mma(f.dropout.on() ? attend<T, kD, true> : attend<T, kD, false>,
                 p.B * p.H * ceil_div(p.T, kMmaOwned<kD>), ForwardTiles<T, kD>::kBytes, a, f);
    });
  });
}

}  // namespace snug::ops

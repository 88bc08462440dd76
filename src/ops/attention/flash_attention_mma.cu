// Forward of the flash kind on tensor cores, with dropout and without.
#include "ops/attention/attention_cuda.h"
#include "ops/attention/attention_forward.cuh"
#include "ops/attention/attention_mma.cuh"

namespace snug::ops {
namespace {

template <typename T, int kD>
struct ForwardTiles {
  using Shape = MmaShape<T, kD>;
  using Queries = MmaTile<T, Shape::kOwned, kD>;
  using Keys = MmaTile<T, Shape::kWalked, kD>;
  static constexpr int kBytes = Queries::kBytes + 4 * Keys::kBytes;
  static_assert(kBytes <= kSharedEverywhere);
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

// y and lse for one tile of queries of one head: all columns of y, or a part of them.
template <typename T, int kD, bool kDropout, bool kPacked>
__global__ void __launch_bounds__(kMmaThreads, 2) attend(const Forward<T> f) {
  using Shape = MmaShape<T, kD>;
  constexpr int kResults = Shape::kResults;
  constexpr int kOwned = Shape::kOwned;
  constexpr int kWalked = Shape::kWalked;
  constexpr int kColumns = kWalked / 8;  // results side by side
  extern __shared__ __align__(1024) float shared[];
  const ForwardTiles<T, kD> tiles{shared_address(shared)};

  const PackedHeads& p = f.p;
  const HeadShape shape(p);
  const int64_t blocks = ceil_div(p.T, kOwned);
  const TileTask task(p.H, blocks * Shape::kParts);
  const int part = static_cast<int>(task.tile % Shape::kParts) * Shape::kPart;
  const int i0 =
      static_cast<int>(blocks - 1 - task.tile / Shape::kParts) * kOwned;  // longest first
  const int rows = min(kOwned, shape.T - i0);
  const SeenTokens<kPacked> sees(f.sees, task.b, shape.T);
  const int first = sees.first(i0) / kWalked;  // of the pieces that are walked over
  const int seen = sees.end(i0 + rows - 1);
  const int64_t kv = task.h / p.group();
  const DropoutFactors dropout(f.dropout, task.b);
  const bool whole = shape.T % 8 == 0;
  const int own = 16 * kResults * warp();  // this warp's first row
  const int mine = i0 + own, mine_end = mine + 16 * kResults;
  const float scale = f.scale * kLog2e;

  tiles.queries().template start_load<InOrder>(f.qkv + p.q(task.b, i0, task.h), shape.width, rows,
                                               shape.D);
  const auto load = [&](int n, int buffer) {
    const int j0 = (first + n) * kWalked;
    const int there = min(kWalked, shape.T - j0);
    tiles.keys(buffer).template start_load<KeyColumns>(f.qkv + p.k(task.b, j0, kv), shape.width,
                                                       there, shape.D);
    tiles.values(buffer).template start_load<KeyColumns>(f.qkv + p.v(task.b, j0, kv), shape.width,
                                                         there, shape.D);
    close_batch();
  };
  const auto round = [&](int buffer) {
    tiles.keys(buffer).template round<KeyColumns>();
    tiles.values(buffer).template round<KeyColumns>();
  };

  uint32_t queries[kResults][Shape::kSteps][4];
  MmaSums<T, Shape::kPart> y[kResults];
  RowSoftmax softmax[kResults][2];
  const int pieces = static_cast<int>(ceil_div(seen, kWalked)) - first;
  walk<2>(pieces, load, round, [&](int n, int buffer) {
    const int j0 = (first + n) * kWalked;
    if (n == 0) {
#pragma unroll
      for (int m = 0; m < kResults; ++m) {
#pragma unroll
        for (int step = 0; step < Shape::kSteps; ++step) {
          tiles.queries().left(queries[m][step], own + 16 * m, step);
          round_operand<T>(queries[m][step]);
        }
      }
    }
    // Keys that no query of this warp sees are left to others.
    if (sees.none(mine, mine_end, j0, j0 + kWalked)) return;
    float scores[kResults][kColumns][4] = {};
#pragma unroll
    for (int step = 0; step < Shape::kSteps; ++step) {
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
    const bool all_seen = j0 + kWalked <= shape.T && sees.all(mine, mine_end, j0, j0 + kWalked);
#pragma unroll
    for (int m = 0; m < kResults; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int query = i0 + own + 16 * m + 8 * half + lane_row();
        const int key = j0 + 8 * lane_column();  // this lane's first
        const int sample = all_seen ? 0 : sees.start(query);
        RowSoftmax& row = softmax[m][half];
        float top = row.max;
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            float& score = scores[m][c][2 * half + e];
            if (!all_seen) {
              const int at = key + c / 4 * 32 + c % 4 * 2 + e;
              if (at >= shape.T || !sees.sees(query, sample, at)) score = -INFINITY;
            }
            top = fmaxf(top, score);
          }
        }
        top = over_row(top, larger);
        const float shift = top == -INFINITY ? 0 : top;  // no key may be seen yet
        if (__any_sync(~0U, top > row.max)) {
          const float rescale = power_of_two((row.max - shift) * scale);
          row.max = top;
          row.sum *= rescale;
          y[m].scale(half, rescale);
        }
        const float base = shift * scale;
        const uint64_t element = static_cast<uint64_t>(task.h * p.T + query) * p.T + key;
#pragma unroll
        for (int four = 0; four < kColumns / 4; ++four) {
          const auto add = [&](auto&& keeps) {
#pragma unroll
            for (int e = 0; e < 8; ++e) {
              float& score = scores[m][4 * four + e / 2][2 * half + e % 2];
              score = power_of_two(score * scale - base);
              row.sum += score;
              if (!keeps(e)) score = 0;
            }
          };
          if constexpr (kDropout) {
            const MaskBits bits = mask_from(dropout, element + 32 * four, whole);
            add([&](int e) { return bits.keeps(e, dropout.threshold); });
          } else {
            add([](int) { return true; });
          }
        }
      }
    }
#pragma unroll
    for (int c = 0; c < kColumns; c += 2) {
      MmaWeights<T> weights[kResults];
#pragma unroll
      for (int m = 0; m < kResults; ++m) weights[m].set(scores[m][c], scores[m][c + 1]);
      add_products(y, weights, tiles.values(buffer), 8 * c, part);
    }
  });
#pragma unroll
  for (int m = 0; m < kResults; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = i0 + own + 16 * m + 8 * half + lane_row();
      const float sum = over_row(softmax[m][half].sum, plus);
      if (query >= shape.T) continue;
      y[m].scale(half, (kDropout ? dropout.scale : 1.0F) / sum);
      if (lane_column() == 0 && part == 0)
        f.lse[(task.b * p.H + task.h) * shape.T + query] =
            softmax[m][half].max * f.scale + logf(sum);
      y[m].store(half, f.y + p.y(task.b, query, task.h) + part, shape.D - part);
    }
  }
}

}  // namespace

void mma_flash_attention(const KernelArgs& a) {
  const PackedHeads p = packed_heads(a.in(0).shape(), a.attrs);
  visit_mma(a.in(0).type->dtype, p.D, [&](auto zero, auto width) {
    using T = decltype(zero);
    constexpr int kD = decltype(width)::value;
    using Shape = MmaShape<T, kD>;
    const Forward<T> f = forward_of<T>(a, a.out<float>(1));
    visit_masks(f.dropout.on(), f.sees.starts != nullptr, [&](auto drops, auto packed) {
      launch_tasks(attend<T, kD, drops, packed>,
                   p.B * p.H * ceil_div(p.T, Shape::kOwned) * Shape::kParts, kMmaThreads,
                   ForwardTiles<T, kD>::kBytes, a, f);
    });
  });
}

}  // namespace snug::ops

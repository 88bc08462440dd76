// Backward of the flash kind on tensor cores, as on plain tiles (attention_grad_cuda.cu): one walk
// owns keys and makes dk and dv, one owns queries and makes dq. No two blocks add to the same
// place, so the bits are the same in every run.
#include "ops/attention/attention_backward.cuh"
#include "ops/attention/attention_cuda.h"
#include "ops/attention/attention_mma.cuh"

namespace snug::ops {
namespace {

constexpr int kChunk = 16;  // of what is walked over, whose scores exist at the same time

// Two tiles of what a block owns, and two of what it walks over, twice: one is copied while the
// other is read.
template <typename T, int kD>
struct GradTiles {
  using Owned = MmaTile<T, kMmaOwned<kD>, kD>;
  using Walked = MmaTile<T, kMmaWalked, kD>;
  static constexpr int kStats = 2 * kMmaWalked * 4;  // bytes
  static constexpr int kBytes = 2 * Owned::kBytes + 4 * Walked::kBytes + 2 * kStats;
  uint32_t at;

  __device__ Owned owned(int which) const { return {at + which * Owned::kBytes}; }
  __device__ Walked walked(int which, int buffer) const {
    return {at + 2 * Owned::kBytes + (2 * buffer + which) * Walked::kBytes};
  }
};

// What becomes of a score and of its probability's gradient, both as the matrix instructions left
// them: score -> P M / scale of the mask, dprob -> dS / scale of the scores.
struct Row {
  float lse, delta;  // the former times log2 e
};
template <bool kDropout>
__device__ void differentiate(float& score, float& dprob, Row row, float scale, bool seen,
                              bool keep, float factor) {
  const float prob = seen ? power_of_two(score * scale - row.lse) : 0.0F;
  if constexpr (kDropout) {
    dprob = prob * ((keep ? factor * dprob : 0.0F) - row.delta);
    score = keep ? prob : 0.0F;
  } else {
    dprob = prob * (dprob - row.delta);
    score = prob;
  }
}

// For kEach keys from `key` on, and queries 0, 1, 8 and 9 behind row `row` of the scores [H*T, T].
template <int kEach>
__device__ Kept<4> kept_of_keys(const DropoutFactors& dropout, int64_t row, int T, int key) {
  const auto element_of = [&](int column, int at) {
    return static_cast<uint64_t>(row + column / 2 * 8 + column % 2) * static_cast<uint64_t>(T) + at;
  };
  if (kEach == 4 || T % 4 != 0)
    return kept<4>(dropout, T % 4 == 0, [&](int column) { return element_of(column, key); });
  // Two lanes share four keys: each draws for two of the columns, and they tell each other.
  const int odd = lane_row() % 2, shift = 2 * odd;
  Kept<4> out;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint32_t mine = kept_of_four(dropout, element_of(2 * odd + i, key - shift) / 4);
    const uint32_t theirs = __shfl_xor_sync(~0U, mine, 4);
    out.set(i, (odd == 0 ? mine : theirs) >> shift & 3);
    out.set(2 + i, (odd == 0 ? theirs : mine) >> shift & 3);
  }
  return out;
}

// dk and dv of one tile of keys, over the group's heads and their queries in order. Keys are rows
// of the scores here, queries columns.
template <typename T, int kD, bool kDropout>
__global__ void __launch_bounds__(kMmaThreads, 2) walk_queries(const Backward<T> g) {
  constexpr int kResults = kMmaResults<kD>;
  constexpr int kOwned = kMmaOwned<kD>;
  constexpr int kEach = 2 * kResults;  // neighbouring keys that a lane holds
  using Order = KeyRows<kResults>;
  extern __shared__ __align__(128) float shared[];
  const GradTiles<T, kD> tiles{shared_address(shared)};
  float* stats = shared + (GradTiles<T, kD>::kBytes - 2 * GradTiles<T, kD>::kStats) / 4;

  const PackedHeads& p = g.p;
  const HeadShape shape(p);
  const TileTask task(p.K, ceil_div(p.T, kOwned));
  const int64_t kv = task.h;
  const int j0 = static_cast<int>(task.tile) * kOwned;
  const int rows = min(kOwned, shape.T - j0);
  const DropoutFactors dropout(g.dropout, task.b);
  const float scale = g.scale * kLog2e;
  const int own = 16 * kResults * warp();  // this warp's first row
  const int key = j0 + own + kEach * lane_row();
  const int first = g.causal ? j0 / kMmaWalked * kMmaWalked : 0;

  tiles.owned(0).template start_load<Order>(g.qkv + p.k(task.b, j0, kv), shape.width, rows,
                                            shape.D);
  tiles.owned(1).template start_load<Order>(g.qkv + p.v(task.b, j0, kv), shape.width, rows,
                                            shape.D);

  const auto start_queries = [&](int64_t h, int i0, int buffer) {
    const int n = min(kMmaWalked, shape.T - i0);
    tiles.walked(0, buffer).template start_load<InOrder>(g.qkv + p.q(task.b, i0, h), shape.width, n,
                                                         shape.D);
    tiles.walked(1, buffer).template start_load<InOrder>(g.dy + p.y(task.b, i0, h), shape.y_width,
                                                         n, shape.D);
    close_batch();
    float* to = stats + 2 * kMmaWalked * buffer;
    for (int e = static_cast<int>(threadIdx.x); e < 2 * kMmaWalked; e += kMmaThreads) {
      const int i = e % kMmaWalked;
      const int64_t row = g.row(task.b, h, i0 + i);
      to[e] = i >= n ? 0 : e < kMmaWalked ? g.lse[row] * kLog2e : g.delta[row];
    }
  };

  MmaSums<T, kD> dk[kResults], dv[kResults];
  start_queries(kv * p.group(), first, 0);
  int buffer = 0;
  for (int64_t h = kv * p.group(); h < (kv + 1) * p.group(); ++h) {
    for (int i0 = first; i0 < shape.T; i0 += kMmaWalked, buffer ^= 1) {
      if (i0 + kMmaWalked < shape.T) {
        start_queries(h, i0 + kMmaWalked, buffer ^ 1);
        wait_batches<1>();
      } else if (h + 1 < (kv + 1) * p.group()) {
        start_queries(h + 1, first, buffer ^ 1);
        wait_batches<1>();
      } else {
        wait_batches<0>();
      }
      __syncthreads();
      const auto queries = tiles.walked(0, buffer), dy = tiles.walked(1, buffer);
      const float* lse = stats + 2 * kMmaWalked * buffer;
      const float* delta = lse + kMmaWalked;
#pragma unroll 1
      for (int chunk = 0; chunk < kMmaWalked; chunk += kChunk) {
        const int i = i0 + chunk;
        if (i >= shape.T || (g.causal && i + kChunk - 1 < j0 + own)) continue;  // nothing is seen
        float scores[kResults][2][4] = {}, dprobs[kResults][2][4] = {};
#pragma unroll
        for (int step = 0; step < kD / 16; ++step) {
          uint32_t left[4], right[4];
          queries.right(right, chunk, step);
#pragma unroll
          for (int m = 0; m < kResults; ++m) {
            tiles.owned(0).left(left, own + 16 * m, step);
            multiply_add<T>(scores[m][0], left, right[0], right[1]);
            multiply_add<T>(scores[m][1], left, right[2], right[3]);
          }
          dy.right(right, chunk, step);
#pragma unroll
          for (int m = 0; m < kResults; ++m) {
            tiles.owned(1).left(left, own + 16 * m, step);
            multiply_add<T>(dprobs[m][0], left, right[0], right[1]);
            multiply_add<T>(dprobs[m][1], left, right[2], right[3]);
          }
        }
        Kept<4> keep;
        if constexpr (kDropout) {
          keep = kept_of_keys<kEach>(dropout, h * p.T + i + 2 * lane_column(), shape.T, key);
        }
#pragma unroll
        for (int column = 0; column < 4; ++column) {  // of this lane
          const int c = column / 2 * 8 + 2 * lane_column() + column % 2;
          const int query = i + c;
          const Row row{lse[chunk + c], delta[chunk + c]};
#pragma unroll
          for (int e = 0; e < kEach; ++e) {
            const bool seen = query < shape.T && (!g.causal || key + e <= query);
            const int at = e % 2 * 2 + column % 2;
            differentiate<kDropout>(scores[e / 2][column / 2][at], dprobs[e / 2][column / 2][at],
                                    row, scale, seen, keep.at(column, e), dropout.scale);
          }
        }
        uint32_t probs[kResults][4], dscores[kResults][4];
#pragma unroll
        for (int m = 0; m < kResults; ++m) {
          as_operand<T>(probs[m], scores[m][0], scores[m][1]);
          as_operand<T>(dscores[m], dprobs[m][0], dprobs[m][1]);
        }
        add_products(dv, probs, dy, chunk);
        add_products(dk, dscores, queries, chunk);
      }
      __syncthreads();  // this buffer is read
    }
  }
#pragma unroll
  for (int m = 0; m < kResults; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int mine = key + 2 * m + half;
      if (mine >= shape.T) continue;
      dk[m].scale(half, g.scale);
      dv[m].scale(half, kDropout ? dropout.scale : 1.0F);
      dk[m].store(half, g.dqkv + p.k(task.b, mine, kv), shape.D);
      dv[m].store(half, g.dqkv + p.v(task.b, mine, kv), shape.D);
    }
  }
}

// dq of one tile of queries, over the keys in order.
template <typename T, int kD, bool kDropout>
__global__ void __launch_bounds__(kMmaThreads, 2) walk_keys(const Backward<T> g) {
  constexpr int kResults = kMmaResults<kD>;
  constexpr int kOwned = kMmaOwned<kD>;
  extern __shared__ __align__(128) float shared[];
  const GradTiles<T, kD> tiles{shared_address(shared)};

  const PackedHeads& p = g.p;
  const HeadShape shape(p);
  const int64_t blocks = ceil_div(p.T, kOwned);
  const TileTask task(p.H, blocks);
  const int i0 = static_cast<int>(blocks - 1 - task.tile) * kOwned;  // longest first
  const int rows = min(kOwned, shape.T - i0);
  const int seen = g.causal ? i0 + rows : shape.T;
  const int64_t kv = task.h / p.group();
  const DropoutFactors dropout(g.dropout, task.b);
  const float scale = g.scale * kLog2e;
  const int own = 16 * kResults * warp();  // this warp's first row

  tiles.owned(0).template start_load<InOrder>(g.qkv + p.q(task.b, i0, task.h), shape.width, rows,
                                              shape.D);
  tiles.owned(1).template start_load<InOrder>(g.dy + p.y(task.b, i0, task.h), shape.y_width, rows,
                                              shape.D);
  const auto start_keys = [&](int j0, int buffer) {
    const int n = min(kMmaWalked, shape.T - j0);
    tiles.walked(0, buffer).template start_load<KeyColumns>(g.qkv + p.k(task.b, j0, kv),
                                                            shape.width, n, shape.D);
    tiles.walked(1, buffer).template start_load<KeyColumns>(g.qkv + p.v(task.b, j0, kv),
                                                            shape.width, n, shape.D);
    close_batch();
  };

  Row stats[kResults][2];
#pragma unroll
  for (int m = 0; m < kResults; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = i0 + own + 16 * m + 8 * half + lane_row();
      const int64_t row = g.row(task.b, task.h, query);
      stats[m][half] = query < shape.T ? Row{g.lse[row] * kLog2e, g.delta[row]} : Row{0, 0};
    }
  }

  uint32_t queries[kResults][kD / 16][4], dy[kResults][kD / 16][4];
  MmaSums<T, kD> dq[kResults];
  start_keys(0, 0);
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
        for (int step = 0; step < kD / 16; ++step) {
          tiles.owned(0).left(queries[m][step], own + 16 * m, step);
          tiles.owned(1).left(dy[m][step], own + 16 * m, step);
        }
      }
    }
    const auto keys = tiles.walked(0, buffer), values = tiles.walked(1, buffer);
#pragma unroll 1
    for (int chunk = 0; chunk < kMmaWalked; chunk += kChunk) {
      const int j = j0 + chunk;
      if (j >= shape.T || (g.causal && j > i0 + own + 16 * kResults - 1)) break;  // nothing is seen
      float scores[kResults][2][4] = {}, dprobs[kResults][2][4] = {};
#pragma unroll
      for (int step = 0; step < kD / 16; ++step) {
        uint32_t right[4];
        keys.right(right, chunk, step);
#pragma unroll
        for (int m = 0; m < kResults; ++m) {
          multiply_add<T>(scores[m][0], queries[m][step], right[0], right[1]);
          multiply_add<T>(scores[m][1], queries[m][step], right[2], right[3]);
        }
        values.right(right, chunk, step);
#pragma unroll
        for (int m = 0; m < kResults; ++m) {
          multiply_add<T>(dprobs[m][0], dy[m][step], right[0], right[1]);
          multiply_add<T>(dprobs[m][1], dy[m][step], right[2], right[3]);
        }
      }
      const int key = j + 4 * lane_column();
      Kept<2 * kResults> keep;
      if constexpr (kDropout) {
        const uint64_t first =
            static_cast<uint64_t>(task.h * p.T + i0 + own + lane_row()) * p.T + key;
        keep = kept<2 * kResults>(dropout, shape.T % 4 == 0, [&](int row) {
          return first + row * (8 * static_cast<uint64_t>(shape.T));
        });
      }
#pragma unroll
      for (int m = 0; m < kResults; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int query = i0 + own + 16 * m + 8 * half + lane_row();
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const bool is_seen = key + e < shape.T && (!g.causal || key + e <= query);
            const int at = 2 * half + e % 2;
            differentiate<kDropout>(scores[m][e / 2][at], dprobs[m][e / 2][at], stats[m][half],
                                    scale, is_seen, keep.at(2 * m + half, e), dropout.scale);
          }
        }
      }
      uint32_t dscores[kResults][4];
#pragma unroll
      for (int m = 0; m < kResults; ++m) as_operand<T>(dscores[m], dprobs[m][0], dprobs[m][1]);
      add_products(dq, dscores, keys, chunk);
    }
    __syncthreads();  // this buffer is read
  }
#pragma unroll
  for (int m = 0; m < kResults; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = i0 + own + 16 * m + 8 * half + lane_row();
      if (query >= shape.T) continue;
      dq[m].scale(half, g.scale);
      dq[m].store(half, g.dqkv + p.q(task.b, query, task.h), shape.D);
    }
  }
}

}  // namespace

void mma_flash_attention_grad(const KernelArgs& a) {
  visit_device_half(a.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    Backward<T> g = backward_of<T>(a, 3);
    g.lse = a.in<float>(2);
    launch_delta_from_y(g, a.in<T>(1), a);
    visit_mma_head_dim(g.p.D, [&](auto width) {
      constexpr int kD = decltype(width)::value;
      constexpr int kBytes = GradTiles<T, kD>::kBytes;
      const int64_t tiles = g.p.B * ceil_div(g.p.T, kMmaOwned<kD>);
      const bool dropout = g.dropout.on();
      launch_mma(dropout ? walk_queries<T, kD, true> : walk_queries<T, kD, false>, tiles * g.p.K,
                 kBytes, a, g);
      launch_mma(dropout ? walk_keys<T, kD, true> : walk_keys<T, kD, false>, tiles * g.p.H, kBytes,
                 a, g);
    });
  });
}

}  // namespace snug::ops

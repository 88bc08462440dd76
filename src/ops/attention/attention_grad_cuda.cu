// Backward of the flash and the standard kind on our own tiles: delta, then one walk that owns keys
// and makes dk and dv, and one that owns queries and makes dq (attention_grad_tiles_cpu.h says what
// these are). No two blocks add to the same place.
#include "ops/attention/attention_backward.cuh"
#include "ops/attention/attention_cuda.h"
#include "ops/attention/attention_tiles.cuh"

namespace snug::ops {
namespace {

// The standard kind does not keep y: sum_j P_ij M_ij (dy_i . v_j). One warp per row, a key per
// lane.
template <typename T>
__global__ void delta_from_probs(const Backward<T> g) {
  const PackedHeads& p = g.p;
  const int64_t row = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;  // in [B, H, T]
  if (row >= p.B * p.H * p.T) return;
  const int64_t b = row / (p.H * p.T);
  const int64_t h = row / p.T % p.H;
  const int64_t i = row % p.T;
  const DropoutFactors dropout(g.dropout, b);
  const T* dy = g.dy + p.y(b, i, h);
  const SeenKeys sees = g.sees.of_row(b, p.T);
  const int64_t seen = sees.end(i, p.T);
  float sum = 0;
  for (int64_t j = sees.first(i) + threadIdx.x % 32; j < seen; j += 32) {
    const T* v = g.qkv + p.v(b, j, h / p.group());
    float dprob = 0;
    for (int64_t d = 0; d < p.D; ++d) dprob = fmaf(to_float(dy[d]), to_float(v[d]), dprob);
    if (dropout.on()) dprob *= dropout.at((h * p.T + i) * p.T + j);
    sum = fmaf(to_float(g.probs[row * p.T + j]), dprob, sum);
  }
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) g.delta[row] = sum;
}

// --- the walks -----------------------------------------------------------------------------------

template <int kD>
constexpr int kGradTile = 64 * 64 / kD;

// Floats of shared memory: queries, dy, keys, values and scores.
template <int kD, int kTile = kGradTile<kD>>
constexpr int64_t kGradFloats = 4 * HeadTile<kTile, kD>::kFloats + ScoreTile<kTile>::kFloats;

// Two tiles that meet: where their queries and keys begin.
struct Meeting {
  int64_t b, h, i0, j0;
};

// In: the matmuls q k^T and dy v^T. Out: P M and dS. All [own][other], own being keys or queries.
template <bool kOwnsKeys, typename T, int kM>
__device__ void differentiate(const Backward<T>& g, const DropoutFactors& dropout, const Meeting& m,
                              float (&scores)[kM][kM], float (&dscores)[kM][kM]) {
  const SeenKeys sees = g.sees.of_row(m.b, g.p.T);
#pragma unroll
  for (int i = 0; i < kM; ++i) {
#pragma unroll
    for (int j = 0; j < kM; ++j) {
      const int own = thread_y() + kSide * i;
      const int other = thread_x() + kSide * j;
      const int64_t query = m.i0 + (kOwnsKeys ? other : own);
      const int64_t key = m.j0 + (kOwnsKeys ? own : other);
      const bool seen = query < g.p.T && key < g.p.T && sees.sees(query, key);
      float prob = 0, dscore = 0;
      if (seen) {
        const int64_t row = g.row(m.b, m.h, query);
        prob = g.probs != nullptr ? to_float(g.probs[row * g.p.T + key])
                                  : expf(scores[i][j] * g.scale - g.lse[row]);
        const float factor = dropout.on() ? dropout.at((m.h * g.p.T + query) * g.p.T + key) : 1.0F;
        dscore = prob * (factor * dscores[i][j] - g.delta[row]) * g.scale;
        prob *= factor;
      }
      scores[i][j] = prob;
      dscores[i][j] = dscore;
    }
  }
}

// The tiles of a block in shared memory.
template <int kD>
struct Tiles {
  static constexpr int kTile = kGradTile<kD>;
  static constexpr int kM = kTile / kSide;
  using Head = HeadTile<kTile, kD>;
  Head queries, dy, keys, values;
  ScoreTile<kTile> scores;

  __device__ explicit Tiles(float* shared)
      : queries{shared},
        dy{shared + Head::kFloats},
        keys{shared + 2 * Head::kFloats},
        values{shared + 3 * Head::kFloats},
        scores{shared + 4 * Head::kFloats} {}

  template <typename T>
  __device__ void load_queries(const Backward<T>& g, int64_t b, int64_t h, int64_t i0) const {
    const int64_t rows = min(int64_t{kTile}, g.p.T - i0);
    queries.load(g.qkv + g.p.q(b, i0, h), g.p.width(), rows, g.p.D);
    dy.load(g.dy + g.p.y(b, i0, h), g.p.H * g.p.D, rows, g.p.D);
  }
  template <typename T>
  __device__ void load_keys(const Backward<T>& g, int64_t b, int64_t kv, int64_t j0) const {
    const int64_t rows = min(int64_t{kTile}, g.p.T - j0);
    keys.load(g.qkv + g.p.k(b, j0, kv), g.p.width(), rows, g.p.D);
    values.load(g.qkv + g.p.v(b, j0, kv), g.p.width(), rows, g.p.D);
  }
};

// dk and dv of one tile of keys, over the group's heads and their queries in order.
template <typename T, int kD>
__global__ void __launch_bounds__(kTileThreads) walk_queries(const Backward<T> g) {
  using Block = Tiles<kD>;
  constexpr int kTile = Block::kTile;
  constexpr int kM = Block::kM;
  extern __shared__ __align__(16) float shared[];
  const Block block(shared);
  const PackedHeads& p = g.p;
  const TileTask task(p.K, ceil_div(p.T, kTile));
  const int64_t kv = task.h;
  const int64_t j0 = task.tile * kTile;
  const DropoutFactors dropout(g.dropout, task.b);

  block.load_keys(g, task.b, kv, j0);
  const int64_t end = g.sees.of_row(task.b, p.T).end_query(min(j0 + kTile, p.T) - 1, p.T);
  HeadSums<kTile, kD> dk, dv;
  for (int64_t h = kv * p.group(); h < (kv + 1) * p.group(); ++h) {
    for (int64_t i0 = g.sees.first_query(j0); i0 < end; i0 += kTile) {
      __syncthreads();  // the last queries and scores are read
      block.load_queries(g, task.b, h, i0);
      __syncthreads();
      float probs[kM][kM], dscores[kM][kM];
      multiply(block.keys, block.queries, probs);
      multiply(block.values, block.dy, dscores);
      differentiate</*kOwnsKeys=*/true>(g, dropout, {task.b, h, i0, j0}, probs, dscores);
      block.scores.store(probs);
      __syncthreads();
      dv.add(block.scores, block.dy);
      __syncthreads();
      block.scores.store(dscores);
      __syncthreads();
      dk.add(block.scores, block.queries);
    }
  }
  const int64_t rows = min(int64_t{kTile}, p.T - j0);
  dk.store(g.dqkv + p.k(task.b, j0, kv), p.width(), rows, p.D);
  dv.store(g.dqkv + p.v(task.b, j0, kv), p.width(), rows, p.D);
}

// dq of one tile of queries, over the keys in order.
template <typename T, int kD>
__global__ void __launch_bounds__(kTileThreads) walk_keys(const Backward<T> g) {
  using Block = Tiles<kD>;
  constexpr int kTile = Block::kTile;
  constexpr int kM = Block::kM;
  extern __shared__ __align__(16) float shared[];
  const Block block(shared);
  const PackedHeads& p = g.p;
  const int64_t tiles = ceil_div(p.T, kTile);
  const TileTask task(p.H, tiles);
  const int64_t i0 = (tiles - 1 - task.tile) * kTile;  // longest first
  const int64_t rows = min(int64_t{kTile}, p.T - i0);
  const SeenKeys sees = g.sees.of_row(task.b, p.T);
  const int64_t seen = sees.end(i0 + rows - 1, p.T);
  const DropoutFactors dropout(g.dropout, task.b);

  block.load_queries(g, task.b, task.h, i0);
  HeadSums<kTile, kD> dq;
  for (int64_t j0 = sees.first(i0) / kTile * kTile; j0 < seen; j0 += kTile) {
    __syncthreads();  // the last keys and scores are read
    block.load_keys(g, task.b, task.h / p.group(), j0);
    __syncthreads();
    float probs[kM][kM], dscores[kM][kM];
    multiply(block.queries, block.keys, probs);
    multiply(block.dy, block.values, dscores);
    differentiate</*kOwnsKeys=*/false>(g, dropout, {task.b, task.h, i0, j0}, probs, dscores);
    block.scores.store(dscores);
    __syncthreads();
    dq.add(block.scores, block.keys);
  }
  dq.store(g.dqkv + p.q(task.b, i0, task.h), p.width(), rows, p.D);
}

// --- launches ------------------------------------------------------------------------------------

template <typename T>
void launch_walks(const Backward<T>& g, const KernelArgs& a) {
  visit_head_dim(g.p.D, [&](auto width) {
    constexpr int kD = decltype(width)::value;
    const int64_t tiles = g.p.B * ceil_div(g.p.T, kGradTile<kD>);
    launch_tasks(walk_queries<T, kD>, tiles * g.p.K, kTileThreads, 4 * kGradFloats<kD>, a, g);
    launch_tasks(walk_keys<T, kD>, tiles * g.p.H, kTileThreads, 4 * kGradFloats<kD>, a, g);
  });
}

}  // namespace

void attention_grad_cuda(const KernelArgs& a) {
  visit_device_float(a.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    Backward<T> g = backward_of<T>(a, 2);
    g.probs = a.in<T>(1);
    delta_from_probs<<<delta_blocks(g), kDeltaThreads, 0, stream_of(a)>>>(g);
    check_launch("attention's delta");
    launch_walks(g, a);
  });
}

void tiled_flash_attention_grad(const KernelArgs& a) {
  visit_device_float(a.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    Backward<T> g = backward_of<T>(a, 3);
    g.lse = a.in<float>(2);
    launch_delta_from_y(g, a.in<T>(1), a);
    launch_walks(g, a);
  });
}

}  // namespace snug::ops

// Forward of the flash and the standard kind on our own tiles.
#include "ops/attention/attention_cuda.h"
#include "ops/attention/attention_forward.cuh"
#include "ops/attention/attention_tiles.cuh"

namespace snug::ops {
namespace {

template <int kD>
constexpr int kForwardTile = kD <= 128 ? 64 : 32;

// Floats of shared memory: queries, keys or values, probabilities.
template <int kD, int kTile = kForwardTile<kD>>
constexpr int64_t kForwardFloats = 2 * HeadTile<kTile, kD>::kFloats + ScoreTile<kTile>::kFloats;

// Scores of one tile as a thread holds them, -inf where there is no key or it is not seen. Queries
// beyond the last see what that sees.
template <typename T, int kM>
__device__ void mask(const Forward<T>& f, const SeenKeys& sees, int64_t i0, int64_t j0,
                     float (&scores)[kM][kM]) {
#pragma unroll
  for (int i = 0; i < kM; ++i) {
    const int64_t query = min(i0 + thread_y() + kSide * i, f.p.T - 1);
    const int64_t first = sees.first(query), end = sees.end(query, f.p.T);
#pragma unroll
    for (int j = 0; j < kM; ++j) {
      const int64_t key = j0 + thread_x() + kSide * j;
      const bool seen = key >= first && key < end;
      scores[i][j] = seen ? scores[i][j] * f.scale : -INFINITY;
    }
  }
}

// The maximum and the sum of a thread's rows over all keys so far; the sum is the thread's own part
// until the end. A row that has seen no key yet has a maximum of -inf.
template <int kM>
struct Softmax {
  float max[kM], sum[kM];

  // scores -> e^(score - max); returns in `rescale` what the results so far shrink by.
  __device__ void add(float (&scores)[kM][kM], float (&rescale)[kM]) {
#pragma unroll
    for (int i = 0; i < kM; ++i) {
      float top = max[i];
#pragma unroll
      for (int j = 0; j < kM; ++j) top = fmaxf(top, scores[i][j]);
      top = row_max(top);
      const float base = top == -INFINITY ? 0 : top;
      rescale[i] = expf(max[i] - base);
      max[i] = top;
      sum[i] *= rescale[i];
#pragma unroll
      for (int j = 0; j < kM; ++j) {
        scores[i][j] = expf(scores[i][j] - base);
        sum[i] += scores[i][j];
      }
    }
  }
};

// All of y and lse for one tile of queries of one head. Every query sees a key, so no maximum stays
// at -inf; queries beyond the last are unread zeros.
template <typename T, int kD>
__global__ void __launch_bounds__(kTileThreads) attend(const Forward<T> f) {
  constexpr int kTile = kForwardTile<kD>;
  constexpr int kM = kTile / kSide;
  extern __shared__ __align__(16) float shared[];
  const HeadTile<kTile, kD> queries{shared};
  const HeadTile<kTile, kD> keys{queries.at + queries.kFloats};  // then values
  const ScoreTile<kTile> weights{keys.at + keys.kFloats};

  const PackedHeads& p = f.p;
  const int64_t tiles = ceil_div(p.T, kTile);
  const TileTask task(p.H, tiles);
  const int64_t i0 = (tiles - 1 - task.tile) * kTile;  // longest first
  const int64_t rows = min(int64_t{kTile}, p.T - i0);
  const SeenKeys sees = f.sees.of_row(task.b, p.T);
  const int64_t seen = sees.end(i0 + rows - 1, p.T);
  const int64_t kv = task.h / p.group();
  const DropoutFactors dropout(f.dropout, task.b);

  queries.load(f.qkv + p.q(task.b, i0, task.h), p.width(), rows, p.D);
  HeadSums<kTile, kD> y;
  Softmax<kM> softmax;
#pragma unroll
  for (int i = 0; i < kM; ++i) softmax.max[i] = -INFINITY, softmax.sum[i] = 0;
  for (int64_t j0 = sees.first(i0) / kTile * kTile; j0 < seen; j0 += kTile) {
    const int64_t n = min(int64_t{kTile}, p.T - j0);
    __syncthreads();  // the last values are read
    keys.load(f.qkv + p.k(task.b, j0, kv), p.width(), n, p.D);
    __syncthreads();
    float scores[kM][kM], rescale[kM];
    multiply(queries, keys, scores);
    mask(f, sees, i0, j0, scores);
    softmax.add(scores, rescale);
#pragma unroll
    for (int i = 0; i < kM; ++i) y.scale(i, rescale[i]);
    if (dropout.on()) {
#pragma unroll
      for (int i = 0; i < kM; ++i) {
        const int64_t row = task.h * p.T + i0 + thread_y() + kSide * i;
#pragma unroll
        for (int j = 0; j < kM; ++j)
          scores[i][j] *= dropout.at(row * p.T + j0 + thread_x() + kSide * j);
      }
    }
    weights.store(scores);
    __syncthreads();  // the keys are read too
    keys.load(f.qkv + p.v(task.b, j0, kv), p.width(), n, p.D);
    __syncthreads();
    y.add(weights, keys);
  }
#pragma unroll
  for (int i = 0; i < kM; ++i) {
    const float sum = row_sum(softmax.sum[i]);
    y.scale(i, 1 / sum);
    const int64_t r = thread_y() + kSide * i;
    if (thread_x() == 0 && r < rows)
      f.lse[(task.b * p.H + task.h) * p.T + i0 + r] = softmax.max[i] + logf(sum);
  }
  y.store(f.y + p.y(task.b, i0, task.h), p.H * p.D, rows, p.D);
}

// probs of one tile of queries of one head against all keys, from their log-sum-exp.
template <typename T, int kD>
__global__ void __launch_bounds__(kTileThreads) write_probs(const Forward<T> f) {
  constexpr int kTile = kForwardTile<kD>;
  constexpr int kM = kTile / kSide;
  extern __shared__ __align__(16) float shared[];
  const HeadTile<kTile, kD> queries{shared};
  const HeadTile<kTile, kD> keys{queries.at + queries.kFloats};

  const PackedHeads& p = f.p;
  const TileTask task(p.H, ceil_div(p.T, kTile));
  const int64_t i0 = task.tile * kTile;
  const int64_t first_row = (task.b * p.H + task.h) * p.T + i0;
  const SeenKeys sees = f.sees.of_row(task.b, p.T);
  queries.load(f.qkv + p.q(task.b, i0, task.h), p.width(), min(int64_t{kTile}, p.T - i0), p.D);
  for (int64_t j0 = 0; j0 < p.T; j0 += kTile) {
    __syncthreads();
    keys.load(f.qkv + p.k(task.b, j0, task.h / p.group()), p.width(), min(int64_t{kTile}, p.T - j0),
              p.D);
    __syncthreads();
    float scores[kM][kM];
    multiply(queries, keys, scores);
    mask(f, sees, i0, j0, scores);
#pragma unroll
    for (int i = 0; i < kM; ++i) {
      const int64_t r = thread_y() + kSide * i;
      if (i0 + r >= p.T) continue;
      const float lse = f.lse[first_row + r];
#pragma unroll
      for (int j = 0; j < kM; ++j) {
        const int64_t key = j0 + thread_x() + kSide * j;
        if (key < p.T)
          f.probs[(first_row + r) * p.T + key] = from_float<T>(expf(scores[i][j] - lse));
      }
    }
  }
}

template <typename T>
void launch(const Forward<T>& f, const KernelArgs& a) {
  visit_head_dim(f.p.D, [&](auto width) {
    constexpr int kD = decltype(width)::value;
    const int64_t tasks = f.p.B * f.p.H * ceil_div(f.p.T, kForwardTile<kD>);
    constexpr int64_t kBytes = 4 * kForwardFloats<kD>;
    launch_tasks(attend<T, kD>, tasks, kTileThreads, kBytes, a, f);
    if (f.probs != nullptr) launch_tasks(write_probs<T, kD>, tasks, kTileThreads, kBytes, a, f);
  });
}

}  // namespace

void tiled_flash_attention(const KernelArgs& a) {
  visit_device_float(a.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    launch(forward_of<T>(a, a.out<float>(1)), a);
  });
}

void attention_cuda(const KernelArgs& a) {
  visit_device_float(a.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    Forward<T> f = forward_of<T>(a, reinterpret_cast<float*>(a.workspace.data()));
    f.probs = a.out<T>(1);
    launch(f, a);
  });
}

}  // namespace snug::ops

// Backward of the flash kind on tensor cores, as on plain tiles (attention_grad_cuda.cu): one walk
// owns keys and makes dk and dv, one owns queries and makes dq. No two blocks add to the same
// place, so the bits are the same in every run.
#include "ops/attention/attention_backward.cuh"
#include "ops/attention/attention_cuda.h"
#include "ops/attention/attention_mma.cuh"

namespace snug::ops {
namespace {

constexpr int kChunk = 16;  // of what is walked over, whose scores exist at the same time

// Two tiles of what a block owns; two of what it walks over, and in walk_queries two numbers of each
// of its rows, as often as there are buffers.
template <typename T, int kD>
struct GradTiles {
  using Shape = MmaShape<T, kD>;
  using Owned = MmaTile<T, Shape::kOwned, kD>;
  using Walked = MmaTile<T, Shape::kWalked, kD>;
  static constexpr int kStatsAt =
      2 * Owned::kBytes + 2 * Shape::kGradBuffers * Walked::kBytes;  // bytes
  static constexpr int kBytes = kStatsAt + Shape::kGradBuffers * 2 * Shape::kWalked * 4;
  static_assert(kBytes <= kSharedEverywhere);
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

// Which of a lane's kEach keys from `key` on are kept for queries 0, 1, 8 and 9 after row `row` of
// the scores [H*T, T]: bit e of each.
template <int kEach>
struct KeptKeys {
  uint32_t columns[4] = {};

  __device__ void draw(const DropoutFactors& dropout, int64_t row, int T, int key) {
    const auto eight = [&](int column, int from, bool whole) {
      const int64_t query = row + column / 2 * 8 + column % 2;
      const auto element = static_cast<uint64_t>(query) * static_cast<uint64_t>(T) + from;
      return mask_from(dropout, element, whole).kept(dropout.threshold);
    };
    if (T % 8 != 0) {
#pragma unroll
      for (int column = 0; column < 4; ++column) columns[column] = eight(column, key, false);
      return;
    }
    // Lanes that share eight keys draw for some of the columns each, and tell each other.
    constexpr int kLanes = 8 / kEach;
    constexpr int kDrawn = 4 / kLanes;
    const int place = lane_row() % kLanes;
    uint32_t drawn[kDrawn];
#pragma unroll
    for (int i = 0; i < kDrawn; ++i)
      drawn[i] = eight(kDrawn * place + i, key - kEach * place, true);
#pragma unroll
    for (int column = 0; column < 4; ++column) {
      const int from = lane() + 4 * (column / kDrawn - place);
      columns[column] = __shfl_sync(~0U, drawn[column % kDrawn], from) >> (kEach * place);
    }
  }
  __device__ bool at(int column, int e) const { return (columns[column] >> e & 1) != 0; }
};

// dk and dv of one tile of keys, over the group's heads and their queries in order: all columns, or
// a part of them. Keys are rows of the scores here, queries columns.
template <typename T, int kD, bool kDropout, bool kPacked>
__global__ void __launch_bounds__(kMmaThreads, 2) walk_queries(const Backward<T> g) {
  using Shape = MmaShape<T, kD>;
  constexpr int kResults = Shape::kResults;
  constexpr int kOwned = Shape::kOwned;
  constexpr int kWalked = Shape::kWalked;
  constexpr int kEach = 2 * kResults;  // neighbouring keys that a lane holds
  using Order = KeyRows<kResults>;
  extern __shared__ __align__(1024) float shared[];
  const GradTiles<T, kD> tiles{shared_address(shared)};
  float* stats = shared + GradTiles<T, kD>::kStatsAt / 4;

  const PackedHeads& p = g.p;
  const HeadShape shape(p);
  const TileTask task(p.K, ceil_div(p.T, kOwned) * Shape::kParts);
  const int part = static_cast<int>(task.tile % Shape::kParts) * Shape::kPart;
  const int64_t kv = task.h;
  const int j0 = static_cast<int>(task.tile / Shape::kParts) * kOwned;
  const int rows = min(kOwned, shape.T - j0);
  const DropoutFactors dropout(g.dropout, task.b);
  const float scale = g.scale * kLog2e;
  const int own = 16 * kResults * warp();  // this warp's first row
  const int key = j0 + own + kEach * lane_row();
  const SeenTokens<kPacked> sees(g.sees, task.b, shape.T);
  const SeenKeys in_row = g.sees.of_row(task.b, p.T);
  const int first = static_cast<int>(in_row.first_query(j0)) / kWalked * kWalked;
  const int end = static_cast<int>(in_row.end_query(j0 + rows - 1, p.T));
  const int pieces = static_cast<int>(ceil_div(end - first, kWalked));  // of each head's queries
  const auto head_of = [&](int n) { return kv * p.group() + n / pieces; };
  const auto query_of = [&](int n) { return first + n % pieces * kWalked; };

  tiles.owned(0).template start_load<Order>(g.qkv + p.k(task.b, j0, kv), shape.width, rows,
                                            shape.D);
  tiles.owned(1).template start_load<Order>(g.qkv + p.v(task.b, j0, kv), shape.width, rows,
                                            shape.D);
  const auto load = [&](int n, int buffer) {
    const int64_t h = head_of(n);
    const int i0 = query_of(n);
    const int there = min(kWalked, shape.T - i0);
    tiles.walked(0, buffer).template start_load<InOrder>(g.qkv + p.q(task.b, i0, h), shape.width,
                                                         there, shape.D);
    tiles.walked(1, buffer).template start_load<InOrder>(g.dy + p.y(task.b, i0, h), shape.y_width,
                                                         there, shape.D);
    close_batch();
    float* to = stats + 2 * kWalked * buffer;
    for (int e = static_cast<int>(threadIdx.x); e < 2 * kWalked; e += kMmaThreads) {
      const int i = e % kWalked;
      const int64_t row = g.row(task.b, h, i0 + i);
      to[e] = i >= there ? 0 : e < kWalked ? g.lse[row] * kLog2e : g.delta[row];
    }
  };
  bool rounded = false;  // what is owned
  const auto round = [&](int buffer) {
    tiles.walked(0, buffer).template round<InOrder>();
    tiles.walked(1, buffer).template round<InOrder>();
    if (rounded) return;
    tiles.owned(0).template round<Order>();
    tiles.owned(1).template round<Order>();
    rounded = true;
  };

  MmaSums<T, Shape::kPart> dk[kResults], dv[kResults];
  walk<Shape::kGradBuffers>(p.group() * pieces, load, round, [&](int n, int buffer) {
    const int64_t h = head_of(n);
    const int i0 = query_of(n);
    const auto queries = tiles.walked(0, buffer), dy = tiles.walked(1, buffer);
    const float* lse = stats + 2 * kWalked * buffer;
    const float* delta = lse + kWalked;
#pragma unroll 1
    for (int chunk = 0; chunk < kWalked; chunk += kChunk) {
      const int i = i0 + chunk;
      if (i >= shape.T || sees.none(i, i + kChunk, j0 + own, j0 + own + 16 * kResults))
        continue;  // nothing is seen
      float scores[kResults][2][4] = {}, dprobs[kResults][2][4] = {};
#pragma unroll
      for (int step = 0; step < Shape::kSteps; ++step) {
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
      KeptKeys<kEach> kept;
      if constexpr (kDropout) {
        kept.draw(dropout, h * p.T + i + 2 * lane_column(), shape.T, key);
      }
#pragma unroll
      for (int column = 0; column < 4; ++column) {  // of this lane
        const int c = column / 2 * 8 + 2 * lane_column() + column % 2;
        const int query = i + c;
        const int sample = sees.start(query);
        const Row row{lse[chunk + c], delta[chunk + c]};
#pragma unroll
        for (int e = 0; e < kEach; ++e) {
          const bool seen = query < shape.T && sees.sees(query, sample, key + e);
          const int at = e % 2 * 2 + column % 2;
          differentiate<kDropout>(scores[e / 2][column / 2][at], dprobs[e / 2][column / 2][at], row,
                                  scale, seen, kept.at(column, e), dropout.scale);
        }
      }
      MmaWeights<T> probs[kResults], dscores[kResults];
#pragma unroll
      for (int m = 0; m < kResults; ++m) {
        probs[m].set(scores[m][0], scores[m][1]);
        dscores[m].set(dprobs[m][0], dprobs[m][1]);
      }
      add_products(dv, probs, dy, chunk, part);
      add_products(dk, dscores, queries, chunk, part);
    }
  });
#pragma unroll
  for (int m = 0; m < kResults; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int mine = key + 2 * m + half;
      if (mine >= shape.T) continue;
      dk[m].scale(half, g.scale);
      dv[m].scale(half, kDropout ? dropout.scale : 1.0F);
      dk[m].store(half, g.dqkv + p.k(task.b, mine, kv) + part, shape.D - part);
      dv[m].store(half, g.dqkv + p.v(task.b, mine, kv) + part, shape.D - part);
    }
  }
}

// 16 rows of what a block owns, as left operands: held in registers where there is room, else read
// again each time.
template <typename T, int kD, typename Tile>
struct OwnedRows {
  using Shape = MmaShape<T, kD>;
  Tile tile;
  int row;
  uint32_t held[Shape::kHoldsOwned ? Shape::kSteps : 1][4];

  __device__ void hold() {
    if constexpr (Shape::kHoldsOwned) {
#pragma unroll
      for (int step = 0; step < Shape::kSteps; ++step) tile.left(held[step], row, step);
    }
  }
  __device__ void get(uint32_t (&to)[4], int step) const {
    if constexpr (Shape::kHoldsOwned) {
#pragma unroll
      for (int i = 0; i < 4; ++i) to[i] = held[step][i];
    } else {
      tile.left(to, row, step);
    }
  }
};

// dq of one tile of queries, over the keys in order: all columns, or a part of them.
template <typename T, int kD, bool kDropout, bool kPacked>
__global__ void __launch_bounds__(kMmaThreads, 2) walk_keys(const Backward<T> g) {
  using Shape = MmaShape<T, kD>;
  using Tiles = GradTiles<T, kD>;
  constexpr int kResults = Shape::kResults;
  constexpr int kOwned = Shape::kOwned;
  constexpr int kWalked = Shape::kWalked;
  constexpr int kGroup = 2 * kChunk;  // keys whose masks are drawn together
  extern __shared__ __align__(1024) float shared[];
  const Tiles tiles{shared_address(shared)};

  const PackedHeads& p = g.p;
  const HeadShape shape(p);
  const int64_t blocks = ceil_div(p.T, kOwned);
  const TileTask task(p.H, blocks * Shape::kParts);
  const int part = static_cast<int>(task.tile % Shape::kParts) * Shape::kPart;
  const int i0 =
      static_cast<int>(blocks - 1 - task.tile / Shape::kParts) * kOwned;  // longest first
  const int rows = min(kOwned, shape.T - i0);
  const SeenTokens<kPacked> sees(g.sees, task.b, shape.T);
  const int first = sees.first(i0) / kWalked;  // of the pieces that are walked over
  const int seen = sees.end(i0 + rows - 1);
  const int64_t kv = task.h / p.group();
  const DropoutFactors dropout(g.dropout, task.b);
  const bool whole = shape.T % 8 == 0;
  const float scale = g.scale * kLog2e;
  const int own = 16 * kResults * warp();  // this warp's first row

  tiles.owned(0).template start_load<InOrder>(g.qkv + p.q(task.b, i0, task.h), shape.width, rows,
                                              shape.D);
  tiles.owned(1).template start_load<InOrder>(g.dy + p.y(task.b, i0, task.h), shape.y_width, rows,
                                              shape.D);
  const auto load = [&](int n, int buffer) {
    const int j0 = (first + n) * kWalked;
    const int there = min(kWalked, shape.T - j0);
    tiles.walked(0, buffer).template start_load<KeyColumns>(g.qkv + p.k(task.b, j0, kv),
                                                            shape.width, there, shape.D);
    tiles.walked(1, buffer).template start_load<KeyColumns>(g.qkv + p.v(task.b, j0, kv),
                                                            shape.width, there, shape.D);
    close_batch();
  };
  bool rounded = false;  // what is owned
  const auto round = [&](int buffer) {
    tiles.walked(0, buffer).template round<KeyColumns>();
    tiles.walked(1, buffer).template round<KeyColumns>();
    if (rounded) return;
    tiles.owned(0).template round<InOrder>();
    tiles.owned(1).template round<InOrder>();
    rounded = true;
  };

  Row stats[kResults][2];
  int samples[kResults][2];  // where those of the rows begin
  OwnedRows<T, kD, typename Tiles::Owned> queries[kResults], dy[kResults];
#pragma unroll
  for (int m = 0; m < kResults; ++m) {
    queries[m].tile = tiles.owned(0), dy[m].tile = tiles.owned(1);
    queries[m].row = dy[m].row = own + 16 * m;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = i0 + own + 16 * m + 8 * half + lane_row();
      const int64_t row = g.row(task.b, task.h, query);
      stats[m][half] = query < shape.T ? Row{g.lse[row] * kLog2e, g.delta[row]} : Row{0, 0};
      samples[m][half] = sees.start(query);
    }
  }

  MmaSums<T, Shape::kPart> dq[kResults];
  walk<Shape::kGradBuffers>(
      static_cast<int>(ceil_div(seen, kWalked)) - first, load, round, [&](int n, int buffer) {
        const auto keys = tiles.walked(0, buffer), values = tiles.walked(1, buffer);
        if (n == 0) {
#pragma unroll
          for (int m = 0; m < kResults; ++m) queries[m].hold(), dy[m].hold();
        }
#pragma unroll 1
        for (int group = 0; group < kWalked; group += kGroup) {
          const int j = (first + n) * kWalked + group;
          if (j >= shape.T || sees.none(i0 + own, i0 + own + 16 * kResults, j, j + kGroup))
            continue;  // nothing is seen
          uint32_t kept[kResults][2] = {};
          if constexpr (kDropout) {
            const int eight = j + 8 * lane_column();  // this lane's keys are eight from here on
#pragma unroll
            for (int row = 0; row < 2 * kResults; ++row) {
              const int64_t query = task.h * p.T + i0 + own + lane_row() + 8 * row;
              kept[row / 2][row % 2] =
                  mask_from(dropout, static_cast<uint64_t>(query) * p.T + eight, whole)
                      .kept(dropout.threshold);
            }
          }
#pragma unroll 1
          for (int chunk = 0; chunk < kGroup; chunk += kChunk) {
            const int key = j + 8 * lane_column() + chunk / 4;  // the first of this lane's four
            float scores[kResults][2][4] = {}, dprobs[kResults][2][4] = {};
#pragma unroll
            for (int step = 0; step < Shape::kSteps; ++step) {
              uint32_t left[4], right[4];
              keys.right(right, group + chunk, step);
#pragma unroll
              for (int m = 0; m < kResults; ++m) {
                queries[m].get(left, step);
                multiply_add<T>(scores[m][0], left, right[0], right[1]);
                multiply_add<T>(scores[m][1], left, right[2], right[3]);
              }
              values.right(right, group + chunk, step);
#pragma unroll
              for (int m = 0; m < kResults; ++m) {
                dy[m].get(left, step);
                multiply_add<T>(dprobs[m][0], left, right[0], right[1]);
                multiply_add<T>(dprobs[m][1], left, right[2], right[3]);
              }
            }
#pragma unroll
            for (int m = 0; m < kResults; ++m) {
#pragma unroll
              for (int half = 0; half < 2; ++half) {
                const int query = i0 + own + 16 * m + 8 * half + lane_row();
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                  const bool is_seen =
                      key + e < shape.T && sees.sees(query, samples[m][half], key + e);
                  const int at = 2 * half + e % 2;
                  differentiate<kDropout>(scores[m][e / 2][at], dprobs[m][e / 2][at],
                                          stats[m][half], scale, is_seen,
                                          (kept[m][half] >> e & 1) != 0, dropout.scale);
                }
                if constexpr (kDropout) kept[m][half] >>= 4;
              }
            }
            MmaWeights<T> dscores[kResults];
#pragma unroll
            for (int m = 0; m < kResults; ++m) dscores[m].set(dprobs[m][0], dprobs[m][1]);
            add_products(dq, dscores, keys, group + chunk, part);
          }
        }
      });
#pragma unroll
  for (int m = 0; m < kResults; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = i0 + own + 16 * m + 8 * half + lane_row();
      if (query >= shape.T) continue;
      dq[m].scale(half, g.scale);
      dq[m].store(half, g.dqkv + p.q(task.b, query, task.h) + part, shape.D - part);
    }
  }
}

}  // namespace

void mma_flash_attention_grad(const KernelArgs& a) {
  const PackedHeads p = packed_heads(a.in(0).shape(), a.attrs);
  visit_mma(a.in(0).type->dtype, p.D, [&](auto zero, auto width) {
    using T = decltype(zero);
    constexpr int kD = decltype(width)::value;
    using Shape = MmaShape<T, kD>;
    constexpr int kBytes = GradTiles<T, kD>::kBytes;
    Backward<T> g = backward_of<T>(a, 3);
    g.lse = a.in<float>(2);
    launch_delta_from_y(g, a.in<T>(1), a);
    const int64_t tasks = p.B * ceil_div(p.T, Shape::kOwned) * Shape::kParts;
    visit_masks(g.dropout.on(), g.sees.starts != nullptr, [&](auto drops, auto packed) {
      launch_tasks(walk_queries<T, kD, drops, packed>, tasks * p.K, kMmaThreads, kBytes, a, g);
      launch_tasks(walk_keys<T, kD, drops, packed>, tasks * p.H, kMmaThreads, kBytes, a, g);
    });
  });
}

}  // namespace snug::ops

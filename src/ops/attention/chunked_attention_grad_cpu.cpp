// Backward of the chunked kind: the probabilities of one chunk of queries, in every head of one
// sample, are recomputed once and serve dq, dk and dv.
#include <algorithm>

#include "base/units.h"
#include "kernels/float_kernels.h"
#include "ops/attention/attention_grad_tiles_cpu.h"

namespace snug::ops {
namespace {

template <typename T>
struct ChunkedGrad : AttentionGrad<T> {
  using AttentionGrad<T>::p, AttentionGrad<T>::dqkv;

  int64_t chunk;
  Scores scores;  // [H, chunk, T]
  float* dkv;     // halves: [2, K, T, D], dk and dv of one sample

  explicit ChunkedGrad(const KernelArgs& a)
      : AttentionGrad<T>(a, 3), chunk(std::min(a.attrs.i("chunk"), p.T)) {
    this->lse = a.in<float>(2);
    float* free = this->delta + p.B * p.H * p.T;
    scores = {free, free + p.H * chunk * p.T, p.T};
    dkv = scores.dscores + p.H * chunk * p.T;
  }

  // Of query c0 + i of head h against key j0.
  Scores scores_at(int64_t h, int64_t i, int64_t j0) const {
    const int64_t at = (h * chunk + i) * scores.ld + j0;
    return {scores.probs + at, scores.dscores + at, scores.ld};
  }

  // f32 adds up where the result belongs. part: 0 dk, 1 dv.
  Sums sums_at(int64_t part, int64_t b, int64_t kv, int64_t j0) const {
    if constexpr (kIsFloat<T>) return {dqkv + p.q(b, j0, p.H + part * p.K + kv), p.width()};
    return {dkv + ((part * p.K + kv) * p.T + j0) * p.D, p.D};
  }

  // Rounds what has added up for `keys` keys.
  void store_sums(int64_t b, int64_t kv, int64_t j0, int64_t keys) const {
    for (int64_t part = 0; part < 2; ++part) {
      const Sums sums = sums_at(part, b, kv, j0);
      T* to = dqkv + p.q(b, j0, p.H + part * p.K + kv);
      for (int64_t j = 0; j < keys; ++j) narrow(sums.at + j * sums.ld, p.D, to + j * p.width());
    }
  }
};

// A chunk: queries [c0, end) of sample b.
struct Chunk {
  int64_t b, c0, end;
};

// dq of queries c0 + i on of one head; their P M and dS are kept.
template <typename T>
void query_tile_grad(const ChunkedGrad<T>& g, const Chunk& c, int64_t h, int64_t i) {
  const PackedHeads& p = g.p;
  KeyTile<T> keys;
  QueryTile<T> queries;
  SumTile<T> dq(g.dqkv + p.q(c.b, c.c0 + i, h), p.width());
  g.load_queries(c.b, h, c.c0 + i, c.end, queries);
  const int64_t seen = g.sees.end(queries.i0 + queries.size - 1, p.T);
  for (int64_t j0 = g.first_key_tile(c.b, queries.i0); j0 < seen; j0 += kTile) {
    const Scores scores = g.scores_at(h, i, j0);
    g.load_keys(c.b, h / p.group(), j0, keys);
    g.load_scores(queries, keys, scores);
    g.add_dq(queries, keys, scores, dq.sums());
  }
  dq.store(queries.size, p.D);
}

// What the chunk gives to dk and dv of one tile of keys. The first chunk to see the keys
// overwrites, the last one completes them.
template <typename T>
void key_tile_grad(const ChunkedGrad<T>& g, const Chunk& c, int64_t kv, int64_t j0) {
  const PackedHeads& p = g.p;
  const int64_t keys = std::min(kTile, p.T - j0);
  QueryTile<T> queries;
  const SeenKeys sees = g.seen_in(c.b);
  const int64_t end_query = sees.end_query(j0 + keys - 1, p.T);
  bool first = c.c0 <= sees.first_query(j0);
  for (int64_t h = kv * p.group(); h < (kv + 1) * p.group(); ++h) {
    for (int64_t i0 = c.c0; i0 < c.end; i0 += kTile) {
      const int64_t end = std::min(i0 + kTile, c.end);
      if (end <= sees.first_query(j0) || i0 >= end_query) continue;  // they see none of the keys
      g.load_queries(c.b, h, i0, c.end, queries);
      g.add_dkv(queries, keys, g.scores_at(h, i0 - c.c0, j0), g.sums_at(0, c.b, kv, j0),
                g.sums_at(1, c.b, kv, j0), first);
      first = false;
    }
  }
  if (!kIsFloat<T> && c.end == p.T) g.store_sums(c.b, kv, j0, keys);
}

// On a team of threads, which waits after each of the two walks.
template <typename T>
void chunk_grad(const ChunkedGrad<T>& g, const Chunk& c) {
  const PackedHeads& p = g.p;
  const int64_t query_tiles = ceil_div(c.end - c.c0, kTile);
  const int64_t key_tiles = ceil_div(g.sees.end(c.end - 1, p.T), kTile);
#pragma omp for schedule(dynamic)
  for (int64_t task = 0; task < p.H * query_tiles; ++task) {
    query_tile_grad(g, c, task / query_tiles, task % query_tiles * kTile);
  }
#pragma omp for schedule(dynamic)
  for (int64_t task = 0; task < p.K * key_tiles; ++task) {
    key_tile_grad(g, c, task / key_tiles, task % key_tiles * kTile);
  }
}

template <typename T>
void backward(const ChunkedGrad<T>& g) {
#pragma omp parallel
  for (int64_t b = 0; b < g.p.B; ++b) {
    for (int64_t c0 = 0; c0 < g.p.T; c0 += g.chunk) {
      chunk_grad(g, {b, c0, std::min(c0 + g.chunk, g.p.T)});
    }
  }
}

}  // namespace

int64_t chunked_attention_grad_workspace(const PackedHeads& p, int64_t chunk, Dtype dtype) {
  const int64_t delta = Type{Dtype::f32, {p.B, p.H, p.T}}.bytes();
  const int64_t scores = Type{Dtype::f32, {2, p.H, std::min(chunk, p.T), p.T}}.bytes();
  const int64_t dkv = Type{Dtype::f32, {2, p.K, p.T, p.D}}.bytes();
  return delta + scores + (dtype == Dtype::f32 ? 0 : dkv);
}

void chunked_attention_grad_cpu(const KernelArgs& a) {
  visit_float(a.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    const ChunkedGrad<T> g(a);
    g.delta_from_y(a.in<T>(1));
    backward(g);
  });
}

}  // namespace snug::ops

#include "ops/attention/cached_attention.h"

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "kernels/float_kernels.h"
#include "ops/attention/attention_cpu.h"
#include "ops/attention/cached_attention_cpu.h"
#include "ops/attention/cached_attention_cuda.h"
#include "ops/attention/packed_heads.h"
#include "ops/infer.h"
#include "ops/packed_rows.h"

namespace snug::ops {
namespace {

enum In : size_t { kQkv, kKeys, kValues, kStarts };

std::vector<Type> infer(const OpView& op) {
  const PackedHeads p = checked_heads(op);
  op.require(p.D <= kMaxHeadDim, "heads of {} elements: attention takes up to {}", p.D,
             kMaxHeadDim);
  op.require(op.attrs.i("window", 1) > 0, "a window of {} keys", op.attrs.i("window", 1));
  op.require(op.attrs.f("scale", 1) > 0, "scores are multiplied by {}, which is not positive",
             op.attrs.f("scale", 1));
  op.require(op.shape(kKeys).rank() == 4, "keys {} are not [batch, positions, heads, size]",
             op.in(kKeys).text());
  const int64_t N = op.shape(kKeys)[1];
  op.require(N >= p.T, "{} new tokens do not fit a cache of {} positions", p.T, N);
  for (const size_t port : {kKeys, kValues})
    require_type(op, port, {op.in(kQkv).dtype, {p.B, N, p.K, p.D}});
  require_starts(op, kStarts, p.B, p.T);
  return {{op.in(kQkv).dtype, {p.B, p.T, p.H * p.D}}, op.in(kKeys), op.in(kValues)};
}

// As if every query saw the whole cache: how much of it is filled is data.
Cost cost(const OpView& op, std::span<const Type> outputs, Backend) {
  const PackedHeads p = packed_heads(op.shape(kQkv), op.attrs);
  const int64_t N = op.shape(kKeys)[1];
  const int64_t seen = op.attrs.has("window") ? std::min(N, op.attrs.i("window")) : N;
  int64_t flops = 4;
  for (const int64_t n : {p.B, p.T, p.H, p.D, seen})
    flops = checked_mul(flops, n, "attention flops");
  const int64_t row = p.K * p.D * size_of(op.in(kQkv).dtype);
  return {.flops = flops,
          .bytes_read = op.in(kQkv).bytes() + 2 * p.B * seen * row,
          .bytes_written = outputs[0].bytes() + 2 * p.B * p.T * row,
          .exps = flops / (4 * p.D),
          .variant = p.group() > 1};
}

// One query: softmax over the keys [first, last] of its head, and the mean of their values by it.
struct RefQuery {
  const double *q, *keys, *values;  // of the first position
  int64_t row, D;                   // elements from one position to the next, of a head
  double scale;

  void attend(int64_t first, int64_t last, double* y) const {
    std::vector<double> weights;
    for (int64_t j = first; j <= last; ++j) {
      double dot = 0;
      for (int64_t d = 0; d < D; ++d) dot += q[d] * keys[j * row + d];
      weights.push_back(dot * scale);
    }
    const double max = *std::ranges::max_element(weights);
    double sum = 0;
    for (double& weight : weights) sum += weight = std::exp(weight - max);
    for (int64_t j = first; j <= last; ++j) {
      for (int64_t d = 0; d < D; ++d)
        y[d] += weights[static_cast<size_t>(j - first)] / sum * values[j * row + d];
    }
  }
};

void reference(const RefArgs& a) {
  const PackedHeads p = packed_heads(a.in(kQkv).shape(), a.attrs);
  const int64_t N = a.in(kKeys).shape()[1], row = p.K * p.D;
  const double scale = a.attrs.f("scale", 1 / std::sqrt(static_cast<double>(p.D)));
  const int64_t window = a.attrs.i("window", N);
  const double* qkv = a.in(kQkv).v.data();
  a.out(1).v = a.in(kKeys).v;
  a.out(2).v = a.in(kValues).v;
  for (int64_t b = 0; b < p.B; ++b) {
    double* keys = a.out(1).v.data() + b * N * row;
    double* values = a.out(2).v.data() + b * N * row;
    const auto position = [&](int64_t t) {
      return position_in_sample(a, kStarts, b * p.T + t, p.T);
    };
    for (int64_t t = 0; t < p.T; ++t) {
      std::copy_n(qkv + p.k(b, t, 0), row, keys + position(t) * row);
      std::copy_n(qkv + p.v(b, t, 0), row, values + position(t) * row);
    }
    for (int64_t t = 0; t < p.T; ++t) {
      const int64_t last = position(t), first = std::max<int64_t>(0, last - window + 1);
      for (int64_t h = 0; h < p.H; ++h) {
        const int64_t head = h / p.group() * p.D;
        const RefQuery query{qkv + p.q(b, t, h), keys + head, values + head, row, p.D, scale};
        query.attend(first, last, a.out(0).v.data() + p.y(b, t, h));
      }
    }
  }
}

Attrs attributes(const CachedAttention& p) {
  Attrs attrs{{"heads", p.heads}, {"kv_heads", p.kv_heads}, {"head_dim", p.head_dim}};
  if (p.window > 0) attrs.set("window", p.window);
  if (p.scale != 0) attrs.set("scale", p.scale);
  return attrs;
}

std::vector<Sample> samples() {
  // After `before` tokens; the caches have rows that no query may see.
  const auto sample = [](const char* name, Shape tokens, int64_t N, double before,
                         const CachedAttention& p) {
    const int64_t B = tokens[0], T = tokens[1];
    const int64_t width = (p.heads + 2 * p.kv_heads) * p.head_dim;
    const SampleInput cache{{Dtype::f32, {B, N, p.kv_heads, p.head_dim}}};
    return Sample{name,
                  {{{Dtype::f32, {B, T, width}}},
                   cache,
                   cache,
                   {{Dtype::i32, {B, T}}, Fill::constant(-before)}},
                  attributes(p)};
  };
  const auto heads = [](int64_t H, int64_t K, int64_t D) {
    return CachedAttention{.heads = H, .kv_heads = K, .head_dim = D};
  };
  CachedAttention window = heads(4, 2, 8), narrow = heads(2, 1, 6), wide = heads(2, 2, 136);
  window.window = 33;
  narrow.window = 1;
  narrow.scale = 0.3;
  return {
      sample("the first token", {1, 1}, 5, 0, heads(2, 1, 4)),
      sample("one token", {2, 1}, 40, 39, heads(6, 2, 10)),
      sample("one token, long", {1, 1}, 700, 613, heads(3, 3, 32)),
      sample("the first chunk", {1, 70}, 70, 0, heads(2, 1, 8)),
      sample("a later chunk", {2, 9}, 150, 130, heads(4, 2, 20)),
      sample("a window", {1, 9}, 150, 120, window),
      sample("a window not full", {1, 9}, 150, 20, window),
      sample("a window of one, scale", {2, 3}, 12, 7, narrow),
      sample("wide heads", {1, 2}, 90, 80, wide),
      sample("the widest heads", {1, 1}, 70, 66, heads(1, 1, 256)),
  };
}

}  // namespace

const OpDef cached_attention_def{
    .kind = "cached_attention",
    .inputs = {"qkv", "keys", "values", "starts"},
    .outputs = {"y", "keys", "values"},
    .infer = infer,
    .cost = cost,
    .alias = {{.output = 1, .input = kKeys, .must = true},
              {.output = 2, .input = kValues, .must = true}},
    .kernels =
        float_kernels(cached_attention_cpu, {.run = SNUG_CUDA_KERNEL(cached_attention_cuda)}),
    .reference = reference,
    .samples = samples,
};

ValueId cached_attention(Builder& b, std::string_view name, const CachedAttention& p) {
  return b.emit(cached_attention_def, name, {p.qkv, p.keys, p.values, p.starts}, attributes(p))[0];
}

}  // namespace snug::ops

#include "ops/rotary/rope.h"

#include <cmath>

#include "base/units.h"
#include "kernels/float_kernels.h"
#include "ops/attention/packed_heads.h"
#include "ops/packed_rows.h"
#include "ops/rotary/rope_cpu.h"
#include "ops/rotary/rope_cuda.h"
#include "ops/rotary/rope_frequency.h"

namespace snug::ops {
namespace {

std::vector<Type> infer(const OpView& op) {
  const PackedHeads p = checked_heads(op);
  require_starts(op, 1, p.B, p.T);
  const int64_t R = rotary_dim(op.attrs);
  op.require(R % 2 == 0, "{} {} is odd: rotary positions turn pairs",
             op.attrs.has("rotary_dim") ? "rotary_dim" : "head_dim", R);
  op.require(R >= 2 && R <= p.D, "rotary_dim {} is not between 2 and the {} of a head", R, p.D);
  op.require(op.attrs.f("theta") > 0, "theta {} is not positive", op.attrs.f("theta"));
  if (!op.attrs.has("scaling")) return {op.in(0)};
  const std::string& scaling = op.attrs.s("scaling");
  op.require(scaling == "linear" || scaling == "llama3", "unknown scaling '{}'", scaling);
  op.require(op.attrs.f("factor") > 0, "scaling factor {} is not positive", op.attrs.f("factor"));
  if (scaling == "linear") return {op.in(0)};
  const double low = op.attrs.f("low_freq_factor");
  const double high = op.attrs.f("high_freq_factor");
  op.require(low < high, "low_freq_factor {} is not below high_freq_factor {}", low, high);
  const int64_t positions = op.attrs.i("original_positions");
  op.require(positions > 0, "original_positions {} is not positive", positions);
  return {op.in(0)};
}

// The turn back by the same angles.
void grad(GradContext& g) {
  Attrs attrs = g.attrs();
  attrs.set("inverse", !attrs.b("inverse", false));
  g.set(0, g.emit(rope_def, {g.dout(0), g.in(1)}, attrs)[0]);
}

// On the CPU cos and sin, [T, R/2] each, are made before the turn.
Cost cost(const OpView& op, std::span<const Type>, Backend backend) {
  const PackedHeads p = packed_heads(op.shape(0), op.attrs);
  return {
      .flops = checked_mul(3, op.shape(0).elements(), "rope flops"),
      .workspace = backend == Backend::cuda ? 0 : p.T * rotary_dim(op.attrs) * size_of(Dtype::f32)};
}

void reference(const RefArgs& a) {
  const PackedHeads p = packed_heads(a.in(0).shape(), a.attrs);
  const int64_t half = rotary_dim(a.attrs) / 2;
  const double direction = a.attrs.b("inverse", false) ? -1 : 1;
  a.out(0).v = a.in(0).v;
  for (int64_t row = 0; row < p.B * p.T; ++row) {
    const auto position = static_cast<double>(position_in_sample(a, 1, row, p.T));
    for (int64_t h = 0; h < p.H + p.K; ++h) {
      const double* x = a.in(0).v.data() + p.q(0, row, h);
      double* y = a.out(0).v.data() + p.q(0, row, h);
      for (int64_t i = 0; i < half; ++i) {
        const double frequency = rope_frequency(i, a.attrs);
        const double angle = direction * position * frequency;
        y[i] = x[i] * std::cos(angle) - x[i + half] * std::sin(angle);
        y[i + half] = x[i + half] * std::cos(angle) + x[i] * std::sin(angle);
      }
    }
  }
}

Attrs attributes(const Rope& p) {
  using Kind = RopeScaling::Kind;
  Attrs attrs{
      {"heads", p.heads}, {"kv_heads", p.kv_heads}, {"head_dim", p.head_dim}, {"theta", p.theta}};
  if (p.rotary_dim > 0 && p.rotary_dim < p.head_dim) attrs.set("rotary_dim", p.rotary_dim);
  if (p.scaling.kind == Kind::none) return attrs;
  attrs.set("scaling", p.scaling.kind == Kind::linear ? "linear" : "llama3");
  attrs.set("factor", p.scaling.factor);
  if (p.scaling.kind == Kind::linear) return attrs;
  attrs.set("low_freq_factor", p.scaling.low_freq_factor);
  attrs.set("high_freq_factor", p.scaling.high_freq_factor);
  attrs.set("original_positions", p.scaling.original_positions);
  return attrs;
}

std::vector<Sample> samples() {
  const auto sample = [](const char* name, int64_t B, int64_t T, const Rope& p) {
    const int64_t width = (p.heads + 2 * p.kv_heads) * p.head_dim;
    return Sample{name, {{{Dtype::f32, {B, T, width}}}}, attributes(p)};
  };
  const auto packed = [&](const char* name, int64_t B, int64_t T, const Rope& p,
                          std::vector<int64_t> lengths) {
    Sample s = sample(name, B, T, p);
    s.inputs.push_back(packed_starts(B, T, std::move(lengths)));
    return s;
  };
  const auto after = [&](const char* name, int64_t B, int64_t T, const Rope& p, double before) {
    Sample s = sample(name, B, T, p);
    s.inputs.push_back({{Dtype::i32, {B, T}}, Fill::constant(-before)});
    return s;
  };
  const RopeScaling linear{.kind = RopeScaling::Kind::linear, .factor = 4};
  const RopeScaling llama3{
      .kind = RopeScaling::Kind::llama3, .factor = 8, .original_positions = 64};
  return {
      sample("one token", 1, 1, {.heads = 1, .kv_heads = 1, .head_dim = 2}),
      sample("grouped", 2, 33, {.heads = 6, .kv_heads = 2, .head_dim = 10}),
      sample("long base", 1, 70, {.heads = 2, .kv_heads = 1, .head_dim = 32, .theta = 500000}),
      sample("a part", 2, 33, {.heads = 6, .kv_heads = 2, .head_dim = 10, .rotary_dim = 4}),
      sample("a part, vectors", 5, 40,
             {.heads = 4, .kv_heads = 4, .head_dim = 64, .rotary_dim = 16}),
      sample("linear", 1, 40, {.heads = 2, .kv_heads = 2, .head_dim = 8, .scaling = linear}),
      sample("llama3", 1, 40, {.heads = 2, .kv_heads = 1, .head_dim = 16, .scaling = llama3}),
      packed("packed", 6, 33, {.heads = 6, .kv_heads = 2, .head_dim = 10}, {5, 1, 20}),
      packed("packed, vectors", 2, 70, {.heads = 2, .kv_heads = 1, .head_dim = 32}, {30, 64, 3}),
      packed("a part, packed", 2, 33, {.heads = 3, .kv_heads = 1, .head_dim = 20, .rotary_dim = 6},
             {5, 1, 20}),
      after("after others", 2, 9, {.heads = 6, .kv_heads = 2, .head_dim = 10}, 300),
      after("one token after others", 1, 1, {.heads = 2, .kv_heads = 1, .head_dim = 32}, 4097),
  };
}

}  // namespace

const OpDef rope_def{
    .kind = "rope",
    .inputs = {"qkv", optional("starts")},
    .outputs = {"y"},
    .infer = infer,
    .grad = grad,
    .cost = cost,
    .alias = {{.output = 0, .input = 0}},
    .splits = {{"batch", {0, 0}, {0}}},
    .features = Features::in_heads,
    .kernels = float_kernels(rope_cpu, {.run = SNUG_CUDA_KERNEL(rope_cuda)}),
    .reference = reference,
    .samples = samples,
};

ValueId rope(Builder& b, std::string_view name, const Rope& p) {
  return b.emit(rope_def, name, {p.qkv, p.starts}, attributes(p))[0];
}

}  // namespace snug::ops

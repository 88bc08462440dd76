#include "ops/activation/swiglu.h"

#include <cmath>
#include <numbers>

#include "kernels/float_kernels.h"
#include "ops/activation/activation_cpu.h"
#include "ops/activation/activation_cuda.h"

namespace snug::ops {
namespace {

std::vector<Type> infer(const OpView& op) {
  const Shape& x = op.shape(0);
  op.require(x.rank() >= 1 && x.back() % 2 == 0, "gate_up {} does not split into gate and up",
             op.in(0).text());
  return {{op.in(0).dtype, x.with_back(x.back() / 2)}};
}

void grad(GradContext& g) { g.set(0, g.emit(swiglu_grad_def, {g.in(0), g.dout(0)}, g.attrs())[0]); }

Cost cost(const OpView& op, std::span<const Type>, Backend) {
  return {.flops = 10 * op.shape(0).elements()};
}

// gate -> x P(x): P and its slope. P is sigmoid(x), or sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)).
struct GateAt {
  double p, slope;

  GateAt(double x, const Attrs& attrs) {
    const bool gelu = attrs.b("gelu", false);
    const double scale = gelu ? 2 * std::sqrt(2 / std::numbers::pi) : 1;
    const double cubic = gelu ? 0.044715 : 0;
    p = 1 / (1 + std::exp(-scale * (x + cubic * x * x * x)));
    slope = p * (1 - p) * scale * (1 + 3 * cubic * x * x);
  }
};

// Calls fn(place of gate, place of up, place of y) for every element of y [rows, F].
template <typename Fn>
void for_each(const Shape& gate_up, Fn&& fn) {
  const auto F = static_cast<size_t>(gate_up.back() / 2);
  for (size_t r = 0; r < static_cast<size_t>(gate_up.rows()); ++r) {
    for (size_t c = 0; c < F; ++c) fn(2 * r * F + c, 2 * r * F + F + c, r * F + c);
  }
}

void reference(const RefArgs& a) {
  for_each(a.in(0).shape(), [&](size_t gate, size_t up, size_t y) {
    const double g = a.in(0).v[gate];
    a.out(0).v[y] = g * GateAt(g, a.attrs).p * a.in(0).v[up];
  });
}

Attrs attributes(bool gelu) { return gelu ? Attrs{{"gelu", true}} : Attrs{}; }

std::vector<Sample> samples() {
  auto sample = [](const char* name, Shape shape, bool gelu = false) {
    return Sample{name, {{{Dtype::f32, shape}, Fill::normal(2)}}, attributes(gelu)};
  };
  return {sample("one row", {8}), sample("odd width", {3, 5, 74}), sample("many rows", {2, 70, 96}),
          sample("gelu", {2, 9, 64}, true), sample("gelu, odd width", {3, 5, 74}, true)};
}

std::vector<Type> infer_grad(const OpView& op) {
  const Shape& x = op.shape(0);
  op.require(op.in(1) == Type{op.in(0).dtype, x.with_back(x.back() / 2)},
             "dy {} does not match gate_up {}", op.in(1).text(), op.in(0).text());
  return {op.in(0)};
}

void reference_grad(const RefArgs& a) {
  for_each(a.in(0).shape(), [&](size_t gate, size_t up, size_t y) {
    const double g = a.in(0).v[gate];
    const GateAt at(g, a.attrs);
    a.out(0).v[gate] = a.in(1).v[y] * a.in(0).v[up] * (at.p + g * at.slope);
    a.out(0).v[up] = a.in(1).v[y] * g * at.p;
  });
}

// --- backward that recomputes y -----------------------------------------------------------------

std::vector<Type> infer_recompute(const OpView& op) {
  std::vector<Type> types = infer_grad(op);
  types.push_back(op.in(1));
  return types;
}

void reference_recompute(const RefArgs& a) {
  reference_grad(a);
  reference(RefArgs{a.inputs.first(1), a.outputs.last(1), a.attrs});
}

std::vector<Sample> samples_recompute() {
  std::vector<Sample> with_dy = samples();
  for (Sample& s : with_dy) {
    const Shape& x = s.inputs[0].type.shape;
    s.inputs.push_back({{Dtype::f32, x.with_back(x.back() / 2)}});
  }
  return with_dy;
}

}  // namespace

const OpDef swiglu_def{
    .kind = "swiglu",
    .inputs = {"gate_up"},
    .outputs = {"y"},
    .infer = infer,
    .grad = grad,
    .cost = cost,
    .splits = {{"rows", {0}, {0}, /*min_rank=*/2}},
    .fused_recompute = FusedRecompute{.grad = &swiglu_grad_def,
                                      .with = &swiglu_recompute_grad_def,
                                      .output = 0,
                                      .recomputed = 1},
    .features = Features::in_halves,
    .kernels = float_kernels(swiglu_cpu, {.run = SNUG_CUDA_KERNEL(swiglu_cuda)}),
    .reference = reference,
    .samples = samples,
};

const OpDef swiglu_grad_def{
    .kind = "swiglu_grad",
    .inputs = {"gate_up", "dy"},
    .outputs = {"dgate_up"},
    .infer = infer_grad,
    .cost = cost,
    .alias = {{.output = 0, .input = 0}},
    .splits = {{"rows", {0, 0}, {0}, /*min_rank=*/2}},
    .kernels = float_kernels(swiglu_grad_cpu, {.run = SNUG_CUDA_KERNEL(swiglu_grad_cuda)}),
    .reference = reference_grad,
};

const OpDef swiglu_recompute_grad_def{
    .kind = "swiglu_recompute_grad",
    .inputs = {"gate_up", "dy"},
    .outputs = {"dgate_up", "y"},
    .infer = infer_recompute,
    .cost = cost,
    .alias = {{.output = 0, .input = 0}, {.output = 1, .input = 1}},
    .splits = {{"rows", {0, 0}, {0, 0}, /*min_rank=*/2}},
    .kernels = float_kernels(swiglu_recompute_grad_cpu,
                             {.run = SNUG_CUDA_KERNEL(swiglu_recompute_grad_cuda)}),
    .reference = reference_recompute,
    .samples = samples_recompute,
};

ValueId swiglu(Builder& b, std::string_view name, ValueId gate_up, bool gelu) {
  return b.emit(swiglu_def, name, {gate_up}, attributes(gelu))[0];
}

}  // namespace snug::ops

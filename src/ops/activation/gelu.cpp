#include "ops/activation/gelu.h"

#include <cmath>
#include <numbers>

#include "kernels/float_kernels.h"
#include "ops/activation/activation_cpu.h"
#include "ops/activation/activation_cuda.h"

namespace snug::ops {
namespace {

std::vector<Type> infer(const OpView& op) { return {op.in(0)}; }

void grad(GradContext& g) { g.set(0, g.emit(gelu_grad_def, {g.in(0), g.dout(0)}, g.attrs())[0]); }

Cost cost(const OpView& op, std::span<const Type>, Backend) {
  return {.flops = 20 * op.shape(0).elements()};
}

// y = x P(x): P and its slope, in the exact or the tanh form.
struct Gate {
  double value, slope;
};
Gate gate(double x, bool tanh_form) {
  using std::numbers::pi;
  if (!tanh_form) {
    const double density = std::exp(-x * x / 2) / std::sqrt(2 * pi);
    return {0.5 * std::erfc(-x / std::numbers::sqrt2), density};
  }
  const double scale = std::sqrt(2 / pi);
  const double t = std::tanh(scale * (x + 0.044715 * x * x * x));
  return {0.5 * (1 + t), 0.5 * (1 - t * t) * scale * (1 + 3 * 0.044715 * x * x)};
}

void reference(const RefArgs& a) {
  for (size_t i = 0; i < a.out(0).v.size(); ++i) {
    const double x = a.in(0).v[i];
    a.out(0).v[i] = x * gate(x, a.attrs.b("tanh")).value;
  }
}

void reference_grad(const RefArgs& a) {
  for (size_t i = 0; i < a.out(0).v.size(); ++i) {
    const double x = a.in(0).v[i];
    const Gate p = gate(x, a.attrs.b("tanh"));
    a.out(0).v[i] = a.in(1).v[i] * (p.value + x * p.slope);
  }
}

std::vector<Sample> samples() {
  auto sample = [](const char* name, Shape shape, bool tanh) {
    return Sample{name, {{{Dtype::f32, shape}, Fill::normal(2)}}, {{"tanh", tanh}}};
  };
  return {sample("tanh", {3, 5, 7}, true), sample("exact", {3, 5, 7}, false),
          sample("tanh, several blocks", {2, 9001}, true),
          sample("exact, several blocks", {2, 9001}, false)};
}

std::vector<Type> infer_grad(const OpView& op) {
  op.require(op.in(0) == op.in(1), "dy {} differs from x {}", op.in(1).text(), op.in(0).text());
  return {op.in(0)};
}

// --- backward that recomputes y -----------------------------------------------------------------

std::vector<Type> infer_recompute(const OpView& op) {
  const Type x = infer_grad(op)[0];
  return {x, x};
}

void reference_recompute(const RefArgs& a) {
  reference_grad(a);
  reference(RefArgs{a.inputs.first(1), a.outputs.last(1), a.attrs});
}

std::vector<Sample> samples_recompute() {
  std::vector<Sample> with_dy = samples();
  for (Sample& s : with_dy) s.inputs.push_back({s.inputs[0].type});
  return with_dy;
}

}  // namespace

const OpDef gelu_def{
    .kind = "gelu",
    .inputs = {"x"},
    .outputs = {"y"},
    .infer = infer,
    .grad = grad,
    .cost = cost,
    .alias = {{.output = 0, .input = 0}},
    .splits = {{"rows", {0}, {0}}},
    .fused_recompute =
        FusedRecompute{
            .grad = &gelu_grad_def, .with = &gelu_recompute_grad_def, .output = 0, .recomputed = 1},
    .features = Features::alone,
    .kernels = float_kernels(gelu_cpu, {.run = SNUG_CUDA_KERNEL(gelu_cuda)}),
    .reference = reference,
    .samples = samples,
};

const OpDef gelu_grad_def{
    .kind = "gelu_grad",
    .inputs = {"x", "dy"},
    .outputs = {"dx"},
    .infer = infer_grad,
    .cost = cost,
    .alias = {{.output = 0, .input = 0}, {.output = 0, .input = 1}},
    .splits = {{"rows", {0, 0}, {0}}},
    .kernels = float_kernels(gelu_grad_cpu, {.run = SNUG_CUDA_KERNEL(gelu_grad_cuda)}),
    .reference = reference_grad,
};

const OpDef gelu_recompute_grad_def{
    .kind = "gelu_recompute_grad",
    .inputs = {"x", "dy"},
    .outputs = {"dx", "y"},
    .infer = infer_recompute,
    .cost = cost,
    .alias = {{.output = 0, .input = 0},
              {.output = 0, .input = 1},
              {.output = 1, .input = 1},
              {.output = 1, .input = 0}},
    .splits = {{"rows", {0, 0}, {0, 0}}},
    .kernels =
        float_kernels(gelu_recompute_grad_cpu, {.run = SNUG_CUDA_KERNEL(gelu_recompute_grad_cuda)}),
    .reference = reference_recompute,
    .samples = samples_recompute,
};

ValueId gelu(Builder& b, std::string_view name, ValueId x, bool tanh) {
  return b.emit(gelu_def, name, {x}, {{"tanh", tanh}})[0];
}

}  // namespace snug::ops

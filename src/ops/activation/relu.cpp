#include "ops/activation/relu.h"

#include <algorithm>

#include "kernels/float_kernels.h"
#include "ops/activation/activation_cpu.h"
#include "ops/activation/activation_cuda.h"

namespace snug::ops {
namespace {

std::vector<Type> infer(const OpView& op) { return {op.in(0)}; }

void grad(GradContext& g) { g.set(0, g.emit(relu_grad_def, {g.out(0), g.dout(0)})[0]); }

Cost cost(const OpView& op, std::span<const Type>, Backend) {
  return {.flops = op.shape(0).elements()};
}

void reference(const RefArgs& a) {
  std::ranges::transform(a.in(0).v, a.out(0).v.begin(), [](double x) { return std::max(x, 0.0); });
}

std::vector<Sample> samples() {
  const auto sample = [](const char* name, Shape shape) {
    return Sample{name, {{{Dtype::f32, shape}, Fill::normal(2)}}};
  };
  return {sample("odd", {3, 5, 7}), sample("several blocks", {2, 9001})};
}

std::vector<Type> infer_grad(const OpView& op) {
  op.require(op.in(0) == op.in(1), "dy {} differs from y {}", op.in(1).text(), op.in(0).text());
  return {op.in(0)};
}

void reference_grad(const RefArgs& a) {
  for (size_t i = 0; i < a.out(0).v.size(); ++i)
    a.out(0).v[i] = a.in(0).v[i] > 0 ? a.in(1).v[i] : 0;
}

}  // namespace

const OpDef relu_def{
    .kind = "relu",
    .inputs = {"x"},
    .outputs = {"y"},
    .infer = infer,
    .grad = grad,
    .cost = cost,
    .alias = {{.output = 0, .input = 0}},
    .splits = {{"rows", {0}, {0}}},
    .features = Features::alone,
    .kernels = float_kernels(relu_cpu, {.run = SNUG_CUDA_KERNEL(relu_cuda)}),
    .reference = reference,
    .samples = samples,
};

const OpDef relu_grad_def{
    .kind = "relu_grad",
    .inputs = {"y", "dy"},
    .outputs = {"dx"},
    .infer = infer_grad,
    .cost = cost,
    .alias = {{.output = 0, .input = 0}, {.output = 0, .input = 1}},
    .splits = {{"rows", {0, 0}, {0}}},
    .kernels = float_kernels(relu_grad_cpu, {.run = SNUG_CUDA_KERNEL(relu_grad_cuda)}),
    .reference = reference_grad,
};

ValueId relu(Builder& b, std::string_view name, ValueId x) {
  return b.emit(relu_def, name, {x})[0];
}

}  // namespace snug::ops

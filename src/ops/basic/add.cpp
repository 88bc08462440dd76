#include "ops/basic/add.h"

#include "ops/for_blocks.h"

namespace snug::ops {
namespace {

std::vector<Type> infer(const OpView& op) {
  op.require(op.in(0) == op.in(1), "a {} and b {} differ", op.in(0).text(), op.in(1).text());
  return {op.in(0)};
}

void grad(GradContext& g) {
  g.set(0, g.dout(0));
  g.set(1, g.dout(0));
}

Cost cost(const OpView& op, std::span<const Type>, Backend) {
  return {.flops = op.shape(0).elements()};
}

void reference(const RefArgs& args) {
  for (size_t i = 0; i < args.out(0).v.size(); ++i) {
    args.out(0).v[i] = args.in(0).v[i] + args.in(1).v[i];
  }
}

std::vector<Sample> samples() {
  auto sample = [](const char* name, Shape shape) {
    return Sample{name, {{{Dtype::f32, shape}}, {{Dtype::f32, shape}}}};
  };
  return {sample("scalar", {}), sample("odd", {3, 5, 7}), sample("several blocks", {3, 9001})};
}

void add_cpu(const KernelArgs& args) {
  const float* a = args.in<float>(0);
  const float* b = args.in<float>(1);
  float* y = args.out<float>(0);  // may be a or b
  for_blocks(args.out(0).elements(), [=](int64_t begin, int64_t end) {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) y[i] = a[i] + b[i];
  });
}

}  // namespace

const OpDef add_def{
    .kind = "add",
    .inputs = {"a", "b"},
    .outputs = {"y"},
    .infer = infer,
    .grad = grad,
    .cost = cost,
    .alias = {{.output = 0, .input = 0}, {.output = 0, .input = 1}},
    .splits = {{"rows", {0, 0}, {0}}},
    .kernels = {{Backend::cpu, Dtype::f32, add_cpu}},
    .reference = reference,
    .samples = samples,
};

ValueId add(Builder& b, std::string_view name, ValueId a, ValueId other) {
  return b.emit(add_def, name, {a, other})[0];
}

}  // namespace snug::ops

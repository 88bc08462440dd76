#include "ops/basic/is_finite.h"

#include <cmath>
#include <limits>

#include "kernels/float_kernels.h"
#include "ops/basic/basic_cuda.h"

namespace snug::ops {
namespace {

std::vector<Type> infer(const OpView& op) {
  op.require(op.in(0) == Type{Dtype::f32, {}}, "x {} is not f32[]", op.in(0).text());
  return {{Dtype::i32, {}}};
}

void reference(const RefArgs& a) { a.out(0).v[0] = std::isfinite(a.in(0).v[0]) ? 1 : 0; }

std::vector<Sample> samples() {
  auto sample = [](const char* name, double x) {
    return Sample{name, {{{Dtype::f32, {}}, Fill::constant(x)}}};
  };
  using Limits = std::numeric_limits<float>;
  return {sample("zero", 0),
          sample("largest", Limits::max()),
          sample("lowest", Limits::lowest()),
          sample("infinity", Limits::infinity()),
          sample("minus infinity", -Limits::infinity()),
          sample("not a number", Limits::quiet_NaN())};
}

void is_finite_cpu(const KernelArgs& a) {
  *a.out<int32_t>(0) = std::isfinite(*a.in<float>(0)) ? 1 : 0;
}

}  // namespace

const OpDef is_finite_def{
    .kind = "is_finite",
    .inputs = {"x"},
    .outputs = {"y"},
    .infer = infer,
    .kernels = kernels_for({Dtype::f32}, is_finite_cpu, {.run = SNUG_CUDA_KERNEL(is_finite_cuda)}),
    .reference = reference,
    .samples = samples,
};

ValueId is_finite(Builder& b, std::string_view name, ValueId x) {
  return b.emit(is_finite_def, name, {x})[0];
}

}  // namespace snug::ops

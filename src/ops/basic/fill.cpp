#include "ops/basic/fill.h"

#include <algorithm>

#include "ir/visit_dtype.h"
#include "kernels/cpu/for_blocks.h"
#include "kernels/float_kernels.h"
#include "ops/basic/basic_cuda.h"
#include "ops/type_attrs.h"

namespace snug::ops {
namespace {

std::vector<Type> infer(const OpView& op) { return {type_from_attrs(op)}; }

void reference(const RefArgs& a) {
  std::fill(a.out(0).v.begin(), a.out(0).v.end(), a.attrs.f("value"));
}

Attrs attrs_of(const Type& type, double value) {
  Attrs attrs{{"value", value}};
  set_type(attrs, type);
  return attrs;
}

std::vector<Sample> samples() {
  auto sample = [](const char* name, const Type& type, double value) {
    return Sample{name, {}, attrs_of(type, value)};
  };
  return {sample("scalar", {Dtype::f32, {}}, 0.5),     sample("zeros", {Dtype::f32, {3, 9001}}, 0),
          sample("bf16", {Dtype::bf16, {2, 9}}, -1.7), sample("f16", {Dtype::f16, {2, 9}}, 3e-5),
          sample("i32", {Dtype::i32, {3, 5}}, -100),   sample("i64", {Dtype::i64, {7}}, 1e10)};
}

void fill_cpu(const KernelArgs& a) {
  visit_dtype(a.out(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    T* y = a.out<T>(0);
    const T value = static_cast<T>(a.attrs.f("value"));
    for_blocks(a.out(0).elements(),
               [=](int64_t begin, int64_t end) { std::fill(y + begin, y + end, value); });
  });
}

}  // namespace

const OpDef fill_def{
    .kind = "fill",
    .inputs = {},
    .outputs = {"y"},
    .infer = infer,
    .kernels = kernels_for({Dtype::f32, Dtype::bf16, Dtype::f16, Dtype::i32, Dtype::i64}, fill_cpu,
                           {.run = SNUG_CUDA_KERNEL(fill_cuda)}),
    .reference = reference,
    .samples = samples,
};

ValueId fill(Builder& b, std::string_view name, Type type, double value) {
  return b.emit(fill_def, name, {}, attrs_of(type, value))[0];
}

}  // namespace snug::ops

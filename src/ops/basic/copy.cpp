#include "ops/basic/copy.h"

#include "kernels/cpu/for_blocks.h"
#include "kernels/float_kernels.h"
#include "ops/basic/basic_cuda.h"

namespace snug::ops {
namespace {

std::vector<Type> infer(const OpView& op) { return {op.in(0)}; }

// The gradient goes back to the space of x; inside one space it is dy itself.
void grad(GradContext& g) {
  Builder& b = g.builder();
  const Space from = b.module()[g.in(0)].space;
  const bool same_space = b.module()[g.out(0)].space == from;
  g.set(0, same_space ? g.dout(0) : copy(b, g.name() + ".grad", g.dout(0), from));
}

void reference(const RefArgs& a) { a.out(0).v = a.in(0).v; }

std::vector<Sample> samples() {
  auto sample = [](const char* name, Dtype dtype, Shape shape) {
    return Sample{name, {{{dtype, shape}, is_float(dtype) ? Fill::normal() : Fill::integers(100)}}};
  };
  return {sample("scalar", Dtype::i64, {}),
          sample("tokens", Dtype::i32, {3, 7}),
          sample("bytes", Dtype::u8, {11}),
          sample("int8", Dtype::i8, {2, 9}),
          sample("double", Dtype::f64, {4, 5}),
          sample("bf16", Dtype::bf16, {3, 5}),
          sample("several blocks", Dtype::f32, {3, 40'001})};
}

void copy_cpu(const KernelArgs& a) {
  copy_elements(a.in<std::byte>(0), a.out<std::byte>(0), a.out(0).type->bytes());
}

}  // namespace

const OpDef copy_def{
    .kind = "copy",
    .inputs = {"x"},
    .outputs = {"y"},
    .infer = infer,
    .grad = grad,
    .splits = {{"rows", {0}, {0}}},
    .crosses_spaces = true,
    .kernels = kernels_for({Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16, Dtype::i8, Dtype::u8,
                            Dtype::i32, Dtype::i64},
                           copy_cpu, {.run = SNUG_CUDA_KERNEL(copy_cuda)}),
    .reference = reference,
    .samples = samples,
};

ValueId copy(Builder& b, std::string_view name, ValueId x, Space to) {
  const ValueId y = b.emit(copy_def, name, {x})[0];
  b.module()[y].space = to;
  return y;
}

}  // namespace snug::ops

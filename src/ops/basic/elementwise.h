// What ops of two operands of one type, element by element, share: y = f(a, b), in fp32.
#pragma once

#include <functional>

#include "ir/builder.h"
#include "kernels/cpu/for_blocks.h"
#include "kernels/float_kernels.h"

namespace snug::ops {

inline std::vector<Type> infer_elementwise(const OpView& op) {
  op.require(op.in(0) == op.in(1), "a {} and b {} differ", op.in(0).text(), op.in(1).text());
  return {op.in(0)};
}

inline Cost cost_elementwise(const OpView& op, std::span<const Type>, Backend) {
  return {.flops = op.shape(0).elements()};
}

template <typename F>
void elementwise_reference(const RefArgs& args) {
  for (size_t i = 0; i < args.out(0).v.size(); ++i) {
    args.out(0).v[i] = F{}(args.in(0).v[i], args.in(1).v[i]);
  }
}

template <typename F>
void elementwise_cpu(const KernelArgs& args) {
  visit_float(args.out(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* a = args.in<T>(0);
    const T* b = args.in<T>(1);
    T* y = args.out<T>(0);  // may be a or b
    for_blocks(args.out(0).elements(), [=](int64_t begin, int64_t end) {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) store(y[i], F{}(float(a[i]), float(b[i])));
    });
  });
}

inline std::vector<Sample> elementwise_samples() {
  auto sample = [](const char* name, Shape shape) {
    return Sample{name, {{{Dtype::f32, shape}}, {{Dtype::f32, shape}}}};
  };
  return {sample("scalar", {}), sample("odd", {3, 5, 7}), sample("several blocks", {3, 9001})};
}

// The facts of such an op; `F` is std::plus<> and the like.
template <typename F>
OpDef elementwise(std::string_view kind, void (*grad)(GradContext&), KernelFn cuda) {
  return {
      .kind = kind,
      .inputs = {"a", "b"},
      .outputs = {"y"},
      .infer = infer_elementwise,
      .grad = grad,
      .cost = cost_elementwise,
      .alias = {{.output = 0, .input = 0}, {.output = 0, .input = 1}},
      .splits = {{"rows", {0, 0}, {0}}},
      .kernels = float_kernels(elementwise_cpu<F>, {.run = cuda}),
      .reference = elementwise_reference<F>,
      .samples = elementwise_samples,
  };
}

}  // namespace snug::ops

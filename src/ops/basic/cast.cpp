#include "ops/basic/cast.h"

#include <cmath>

#include "ir/visit_dtype.h"
#include "kernels/cpu/for_blocks.h"
#include "kernels/float_kernels.h"
#include "ops/basic/basic_cuda.h"

namespace snug::ops {
namespace {

std::vector<Type> infer(const OpView& op) {
  const auto to = parse_dtype(op.attrs.s("to"));
  op.require(to.has_value(), "dtype '{}' is not known", op.attrs.s("to"));
  return {{*to, op.shape(0)}};
}

void grad(GradContext& g) {
  if (!g.wants(0) || !g.dout(0).valid()) return;
  const Dtype from = g.type(g.in(0)).dtype;
  g.set(0, g.emit(cast_def, {g.dout(0)}, {{"to", std::string(name_of(from))}})[0]);
}

// Rounding of floats is left to the tolerance of the output's dtype.
void reference(const RefArgs& a) {
  const bool cuts = is_float(a.in(0).type.dtype) && !is_float(a.out(0).type.dtype);
  for (size_t i = 0; i < a.out(0).v.size(); ++i) {
    a.out(0).v[i] = cuts ? std::trunc(a.in(0).v[i]) : a.in(0).v[i];
  }
}

std::vector<Sample> samples() {
  auto sample = [](Dtype from, Dtype to, Shape shape = {3, 37}) {
    return Sample{fmt::format("{} to {}", name_of(from), name_of(to)),
                  {{{from, shape}, is_float(from) ? Fill::normal(20) : Fill::integers(1000)}},
                  {{"to", std::string(name_of(to))}}};
  };
  return {sample(Dtype::f32, Dtype::bf16, {2, 9001}),
          sample(Dtype::bf16, Dtype::f32),
          sample(Dtype::f32, Dtype::f16),
          sample(Dtype::f16, Dtype::f32, {}),
          sample(Dtype::f16, Dtype::bf16),
          sample(Dtype::f32, Dtype::f64),
          sample(Dtype::f32, Dtype::i32),
          sample(Dtype::i32, Dtype::f32),
          sample(Dtype::i64, Dtype::i32),
          sample(Dtype::i32, Dtype::i64),
          sample(Dtype::f32, Dtype::f32),
          sample(Dtype::i64, Dtype::f32)};
}

// Between integers and 16-bit floats the way leads over float.
template <typename To, typename From>
void convert(From x, To& y) {
  if constexpr (!std::is_arithmetic_v<To>) {
    store(y, static_cast<float>(x));
  } else if constexpr (!std::is_arithmetic_v<From>) {
    y = static_cast<To>(static_cast<float>(x));
  } else {
    y = static_cast<To>(x);  // NOLINT(bugprone-signed-char-misuse): a number of 8 bits
  }
}

template <typename From>
void cast_from(const KernelArgs& a) {
  const From* x = a.in<From>(0);
  const int64_t n = a.out(0).elements();
  visit_dtype(a.out(0).type->dtype, [&](auto zero) {
    using To = decltype(zero);
    To* y = a.out<To>(0);
    for_blocks(n, [=](int64_t begin, int64_t end) {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) convert(x[i], y[i]);
    });
  });
}

void cast_cpu(const KernelArgs& a) {
  visit_dtype(a.in(0).type->dtype, [&](auto zero) { cast_from<decltype(zero)>(a); });
}

}  // namespace

const OpDef cast_def{
    .kind = "cast",
    .inputs = {"x"},
    .outputs = {"y"},
    .infer = infer,
    .grad = grad,
    .splits = {{"rows", {0}, {0}}},
    .kernels =
        kernels_for({Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16, Dtype::i32, Dtype::i64},
                    cast_cpu, {.run = SNUG_CUDA_KERNEL(cast_cuda)}),
    .reference = reference,
    .samples = samples,
};

ValueId cast(Builder& b, std::string_view name, ValueId x, Dtype to) {
  return b.emit(cast_def, name, {x}, {{"to", std::string(name_of(to))}})[0];
}

}  // namespace snug::ops

#include "ops/linear/linear.h"

#include "kernels/float_kernels.h"
#include "ops/infer.h"
#include "ops/linear/linear_cpu.h"
#include "ops/linear/linear_cuda.h"
#include "ops/linear/matmul_scratch.h"
#include "ops/linear/weight_layout.h"

namespace snug::ops {
namespace {

enum In : size_t { kX, kWeight, kBias, kResidual };

std::vector<Type> infer(const OpView& op) {
  const Shape& x = op.shape(kX);
  const Shape& weight = op.shape(kWeight);
  op.require(x.rank() >= 1 && weight.rank() == 2 && op.in(kX).dtype == op.in(kWeight).dtype &&
                 x.back() == WeightLayout::of(weight, op.attrs).in,
             "x {} and weight {}{} do not multiply", op.in(kX).text(), op.in(kWeight).text(),
             op.attrs.b(kWeightInOut, false) ? " (stored [in,out])" : "");
  const int64_t out = WeightLayout::of(weight, op.attrs).out;
  const Type y{op.in(kX).dtype, x.with_back(out)};
  if (op.has(kBias)) {
    op.require(op.in(kBias) == Type{y.dtype, {out}}, "bias {} does not fit the result {}",
               op.in(kBias).text(), y.text());
  }
  require_sum(op, kResidual, y);
  return {y};
}

void grad(GradContext& g) {
  const ValueId dy = g.dout(0);
  const Attrs& attrs = g.attrs();
  if (g.wants(kX)) {
    g.set(kX, g.emit(linear_grad_input_def, {dy, g.in(kWeight)}, attrs, "grad_input")[0]);
  }
  if (g.wants(kWeight)) {
    g.set(kWeight, g.emit(linear_grad_weight_def, {g.in(kX), dy}, attrs, "grad_weight")[0]);
  }
  if (g.wants(kBias)) g.set(kBias, g.emit(linear_grad_bias_def, {dy}, {}, "grad_bias")[0]);
  if (g.wants(kResidual)) g.set(kResidual, dy);
}

Cost cost(const OpView& op, std::span<const Type> outputs, Backend backend) {
  const Dtype x = op.in(kX).dtype, weight = op.in(kWeight).dtype, y = outputs[0].dtype;
  return {.flops = matmul_flops(op.shape(kX), op.shape(kWeight)),
          .workspace = matmul_scratch(backend, op.shape(kX).rows(), outputs[0].shape.back(),
                                      op.shape(kX).back(), {x, weight, y})};
}

void reference(const RefArgs& a) {
  const WeightLayout w = WeightLayout::of(a.in(kWeight).shape(), a.attrs);
  for (int64_t r = 0; r < a.in(kX).shape().rows(); ++r) {
    for (int64_t o = 0; o < w.out; ++o) {
      const auto at = static_cast<size_t>(r * w.out + o);
      double sum =
          a.has(kBias) && a.attrs.b(kBiasHere, true) ? a.in(kBias).v[static_cast<size_t>(o)] : 0;
      if (a.has(kResidual)) sum += a.in(kResidual).v[at];
      for (int64_t i = 0; i < w.in; ++i) {
        sum += a.in(kX).v[static_cast<size_t>(r * w.in + i)] * a.in(kWeight).v[w.at(o, i)];
      }
      a.out(0).v[at] = sum;
    }
  }
}

std::vector<Sample> samples() {
  struct With {
    bool bias = false, residual = false, in_out = false;
  };
  auto sample = [](const char* name, Shape x, int64_t out, With with) {
    auto maybe = [](bool present, Shape shape) {
      return SampleInput{{Dtype::f32, shape}, present ? Fill::normal() : Fill::absent()};
    };
    const Shape weight = with.in_out ? Shape{x.back(), out} : Shape{out, x.back()};
    return Sample{name,
                  {{{Dtype::f32, x}},
                   {{Dtype::f32, weight}},
                   maybe(with.bias, {out}),
                   maybe(with.residual, x.with_back(out))},
                  with.in_out ? Attrs{{kWeightInOut, true}} : Attrs{}};
  };
  return {sample("one row", {8}, 5, {}),
          sample("plain", {2, 3, 7}, 11, {}),
          sample("bias", {3, 40, 37}, 29, {.bias = true}),
          sample("residual", {5, 17}, 17, {.residual = true}),
          sample("all, in-out", {2, 35, 33}, 31, {true, true, true}),
          sample("in-out", {6, 9}, 13, {.in_out = true})};
}

}  // namespace

const OpDef linear_def{
    .kind = "linear",
    .inputs = {"x", "weight", optional("bias"), optional("residual")},
    .outputs = {"y"},
    .infer = infer,
    .grad = grad,
    .cost = cost,
    .alias = {{.output = 0, .input = kResidual}},
    .splits = {{"rows", {0, Split::kWhole, Split::kWhole, 0}, {0}, /*min_rank=*/2}},
    .matmul = true,
    .kernels = float_kernels(linear_cpu, {.run = SNUG_CUDA_KERNEL(linear_cuda),
                                          .prepare = SNUG_CUDA_KERNEL(linear_cuda_prepare)}),
    .reference = reference,
    .samples = samples,
};

ValueId linear(Builder& b, std::string_view name, const Linear& p) {
  Attrs attrs;
  if (p.weight_in_out) attrs.set(kWeightInOut, true);
  return b.emit(linear_def, name, {p.x, p.weight, p.bias, p.residual}, std::move(attrs))[0];
}

}  // namespace snug::ops

#include "ops/linear/linear_parts.h"

#include <algorithm>
#include <cstdlib>

#include "base/number.h"
#include "base/text.h"
#include "kernels/float_kernels.h"
#include "ops/infer.h"
#include "ops/linear/linear_parts_cpu.h"
#include "ops/linear/linear_parts_cuda.h"
#include "ops/linear/matmul_scratch.h"
#include "ops/linear/weight_layout.h"
#include "ops/reference.h"

namespace snug::ops {
namespace {

constexpr const char* kParts = "parts";
constexpr const char* kScale = "scale";

enum In : size_t { kX, kWeight, kResidual };

// What an op's attributes say of its parts, all in all.
struct Packed {
  int64_t outputs = 0, rows = 0, reached = 0, widest = 0;

  explicit Packed(const OpView& op) {
    const std::vector<LinearPart> parts = parts_of(op.attrs, /*r=*/1);
    for (const LinearPart& part : parts) {
      outputs += part.outputs;
      if (!part.reached) continue;
      rows += part.outputs;
      ++reached;
      widest = std::max(widest, part.outputs);
    }
    op.require(reached > 0, "'{}' is no list of parts", op.attrs.s(kParts));
  }
};

// fn(element of y, of the weight, of x) for all that are multiplied.
struct PartShapes {
  Shape y, x;
  int64_t r;
};
template <typename Fn>
void for_each_product(const RefArgs& a, const PartShapes& shapes, Fn&& fn) {
  const int64_t out = shapes.y.back(), in = shapes.x.back(), r = shapes.r;
  for (int64_t row = 0; row < shapes.y.rows(); ++row) {
    for (const LinearPart& part : parts_of(a.attrs, r)) {
      for (int64_t o = 0; part.reached && o < part.outputs; ++o) {
        for (int64_t i = 0; i < r; ++i) {
          fn(static_cast<size_t>(row * out + part.first_output + o),
             static_cast<size_t>((part.first_row + o) * r + i),
             static_cast<size_t>(row * in + part.first_input + i));
        }
      }
    }
  }
}

// --- y = scale x W^T --------------------------------------------------------------------------

std::vector<Type> infer(const OpView& op) {
  const Packed parts(op);
  const Shape &x = op.shape(kX), &weight = op.shape(kWeight);
  op.require(x.rank() >= 1 && weight.rank() == 2 && op.in(kX).dtype == op.in(kWeight).dtype &&
                 weight[0] == parts.rows && x.back() == weight[1] * parts.reached,
             "x {} and weight {} do not multiply in parts {}", op.in(kX).text(),
             op.in(kWeight).text(), op.attrs.s(kParts));
  const Type y{op.in(kX).dtype, x.with_back(parts.outputs)};
  require_sum(op, kResidual, y);
  return {y};
}

void grad(GradContext& g) {
  const ValueId dy = g.dout(0);
  if (g.wants(kX)) {
    g.set(kX, g.emit(linear_parts_grad_input_def, {dy, g.in(kWeight)}, g.attrs(), "grad_input")[0]);
  }
  if (g.wants(kWeight)) {
    g.set(kWeight,
          g.emit(linear_parts_grad_weight_def, {g.in(kX), dy}, g.attrs(), "grad_weight")[0]);
  }
  if (g.wants(kResidual)) g.set(kResidual, dy);
}

// Each part reads inputs of its own.
Cost cost(const OpView& op, std::span<const Type> outputs, Backend backend) {
  const Shape& weight = op.shape(kWeight);
  const Dtype x = op.in(kX).dtype, y = outputs[0].dtype;
  return {.flops = matmul_flops(op.shape(kX), weight),
          .workspace = matmul_scratch(backend, op.shape(kX).rows(), Packed(op).widest, weight[1],
                                      {x, x, y})};
}

void reference(const RefArgs& a) {
  const int64_t r = a.in(kWeight).shape()[1];
  if (a.has(kResidual)) a.out(0).v = a.in(kResidual).v;
  for_each_product(a, {a.out(0).shape(), a.in(kX).shape(), r}, [&](size_t y, size_t w, size_t x) {
    a.out(0).v[y] += scale_of_parts(a.attrs) * a.in(kX).v[x] * a.in(kWeight).v[w];
  });
}

std::vector<Sample> samples() {
  struct Case {
    const char* name;
    Shape x;
    Shape weight;
    const char* parts;
    int64_t out;
    bool residual;
  };
  std::vector<Sample> out;
  for (const Case& c :
       {Case{"one part", {5, 4}, {7, 4}, "7", 7, false},
        Case{"three parts", {2, 6, 9}, {16, 3}, "8,4,4", 16, false},
        Case{"a residual", {33, 16}, {64, 8}, "24,40", 64, true},
        Case{"not all are reached", {9, 10}, {12, 5}, "8,-3,4,-2", 17, false},
        Case{"not all, and a residual", {70, 32}, {128, 16}, "96,-32,32", 160, true}}) {
    out.push_back(
        {c.name,
         {{{Dtype::f32, c.x}},
          {{Dtype::f32, c.weight}},
          {{Dtype::f32, c.x.with_back(c.out)}, c.residual ? Fill::normal() : Fill::absent()}},
         {{kParts, c.parts}, {kScale, 2.0}}});
  }
  return out;
}

// --- dx = scale dy W --------------------------------------------------------------------------

namespace grad_input {
enum In : size_t { kDy, kWeight, kSum };

std::vector<Type> infer(const OpView& op) {
  const Packed parts(op);
  const Shape& weight = op.shape(kWeight);
  op.require(weight.rank() == 2 && op.shape(kDy).back() == parts.outputs &&
                 weight[0] == parts.rows && op.in(kDy).dtype == op.in(kWeight).dtype,
             "dy {} and weight {} do not multiply in parts {}", op.in(kDy).text(),
             op.in(kWeight).text(), op.attrs.s(kParts));
  const Type dx{op.in(kDy).dtype, op.shape(kDy).with_back(weight[1] * parts.reached)};
  require_sum(op, kSum, dx);
  return {dx};
}

Cost cost(const OpView& op, std::span<const Type> outputs, Backend backend) {
  const Dtype dy = op.in(kDy).dtype, dx = outputs[0].dtype;
  const Shape& weight = op.shape(kWeight);
  const int64_t rows = op.shape(kDy).rows();
  return {.flops = matmul_flops(op.shape(kDy), weight),
          .workspace = matmul_scratch(backend, rows, weight[1], Packed(op).widest, {dy, dy, dx})};
}

void reference(const RefArgs& a) {
  const int64_t r = a.in(kWeight).shape()[1];
  for_each_product(a, {a.in(kDy).shape(), a.out(0).shape(), r}, [&](size_t y, size_t w, size_t x) {
    a.out(0).v[x] += scale_of_parts(a.attrs) * a.in(kDy).v[y] * a.in(kWeight).v[w];
  });
  add_accumulators(linear_parts_grad_input_def, a);
}
}  // namespace grad_input

// --- dW = scale dy^T x ------------------------------------------------------------------------

namespace grad_weight {
enum In : size_t { kX, kDy, kSum };

std::vector<Type> infer(const OpView& op) {
  const Packed parts(op);
  op.require(op.shape(kX).with_back(1) == op.shape(kDy).with_back(1) &&
                 op.in(kX).dtype == op.in(kDy).dtype && op.shape(kDy).back() == parts.outputs &&
                 op.shape(kX).back() % parts.reached == 0,
             "x {} and dy {} do not multiply in parts {}", op.in(kX).text(), op.in(kDy).text(),
             op.attrs.s(kParts));
  const Type dweight{grad_dtype(op, op.in(kX).dtype),
                     {parts.rows, op.shape(kX).back() / parts.reached}};
  require_sum(op, kSum, dweight);
  return {dweight};
}

Cost cost(const OpView& op, std::span<const Type> outputs, Backend backend) {
  const Type& dweight = outputs[0];
  const Dtype x = op.in(kX).dtype;  // and dy's
  return {.flops = matmul_flops(op.shape(kX), dweight.shape),
          .workspace = matmul_scratch(backend, Packed(op).widest, dweight.shape[1],
                                      op.shape(kX).rows(), {x, x, dweight.dtype})};
}

void reference(const RefArgs& a) {
  const int64_t r = a.out(0).shape()[1];
  for_each_product(a, {a.in(kDy).shape(), a.in(kX).shape(), r}, [&](size_t y, size_t w, size_t x) {
    a.out(0).v[w] += scale_of_parts(a.attrs) * a.in(kDy).v[y] * a.in(kX).v[x];
  });
  add_accumulators(linear_parts_grad_weight_def, a);
}
}  // namespace grad_weight

}  // namespace

std::vector<LinearPart> parts_of(const Attrs& attrs, int64_t r) {
  std::vector<LinearPart> parts;
  LinearPart next;
  for (const std::string& word : split(attrs.s(kParts), ',')) {
    int64_t outputs = 0;
    if (!read_number(word, outputs) || outputs == 0) return {};
    next.outputs = std::abs(outputs);
    next.reached = outputs > 0;
    parts.push_back(next);
    next.first_output += next.outputs;
    if (!next.reached) continue;
    next.first_row += next.outputs;
    next.first_input += r;
  }
  return parts;
}

double scale_of_parts(const Attrs& attrs) { return attrs.f(kScale, 1); }

const OpDef linear_parts_def{
    .kind = "linear_parts",
    .inputs = {"x", "weight", optional("residual")},
    .outputs = {"y"},
    .infer = infer,
    .grad = grad,
    .cost = cost,
    .alias = {{.output = 0, .input = kResidual}},
    .splits = {{"rows", {0, Split::kWhole, 0}, {0}, /*min_rank=*/2}},
    .matmul = true,
    .kernels =
        float_kernels(linear_parts_cpu, {.run = SNUG_CUDA_KERNEL(linear_parts_cuda),
                                         .prepare = SNUG_CUDA_KERNEL(linear_parts_cuda_prepare)}),
    .reference = reference,
    .samples = samples,
};

const OpDef linear_parts_grad_input_def{
    .kind = "linear_parts_grad_input",
    .inputs = {"dy", "weight", optional("dx_sum")},
    .outputs = {"dx"},
    .infer = grad_input::infer,
    .cost = grad_input::cost,
    .accumulate = {{.output = 0, .input = grad_input::kSum}},
    .splits = {{"rows", {0, Split::kWhole, 0}, {0}, /*min_rank=*/2}},
    .matmul = true,
    .kernels = float_kernels(linear_parts_grad_input_cpu,
                             {.run = SNUG_CUDA_KERNEL(linear_parts_grad_input_cuda),
                              .prepare = SNUG_CUDA_KERNEL(linear_parts_grad_input_cuda_prepare)}),
    .reference = grad_input::reference,
};

const OpDef linear_parts_grad_weight_def{
    .kind = "linear_parts_grad_weight",
    .inputs = {"x", "dy", optional("dweight_sum")},
    .outputs = {"dweight"},
    .infer = grad_weight::infer,
    .cost = grad_weight::cost,
    .accumulate = {{.output = 0, .input = grad_weight::kSum}},
    .splits = {{"rows", {0, 0, Split::kWhole}, {Split::kPartial}, /*min_rank=*/2}},
    .matmul = true,
    .kernels = float_kernels(linear_parts_grad_weight_cpu,
                             {.run = SNUG_CUDA_KERNEL(linear_parts_grad_weight_cuda),
                              .prepare = SNUG_CUDA_KERNEL(linear_parts_grad_weight_cuda_prepare)}),
    .reference = grad_weight::reference,
};

ValueId linear_parts(Builder& b, std::string_view name, const LinearParts& p) {
  std::vector<std::string> words;
  for (const int64_t part : p.parts) words.push_back(fmt::format("{}", part));
  Attrs attrs{{kParts, join(words, ",")}};
  if (p.scale != 1) attrs.set(kScale, p.scale);
  return b.emit(linear_parts_def, name, {p.x, p.weight, p.residual}, std::move(attrs))[0];
}

}  // namespace snug::ops

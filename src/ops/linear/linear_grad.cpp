#include "ops/linear/linear.h"

#include "kernels/cpu/column_sum.h"
#include "kernels/cuda/column_sum.h"
#include "kernels/float_kernels.h"
#include "ops/infer.h"
#include "ops/linear/linear_cpu.h"
#include "ops/linear/linear_cuda.h"
#include "ops/linear/matmul_scratch.h"
#include "ops/linear/weight_layout.h"
#include "ops/reference.h"

namespace snug::ops {
namespace {

// --- dx = dy W --------------------------------------------------------------------------------

namespace grad_input {
enum In : size_t { kDy, kWeight, kSum };

std::vector<Type> infer(const OpView& op) {
  const WeightLayout w = WeightLayout::of(op.shape(kWeight), op.attrs);
  op.require(op.shape(kDy).back() == w.out && op.in(kDy).dtype == op.in(kWeight).dtype,
             "dy {} and weight {} do not multiply", op.in(kDy).text(), op.in(kWeight).text());
  const Type dx{op.in(kDy).dtype, op.shape(kDy).with_back(w.in)};
  require_sum(op, kSum, dx);
  return {dx};
}

Cost cost(const OpView& op, std::span<const Type> outputs, Backend backend) {
  const Dtype dy = op.in(kDy).dtype, weight = op.in(kWeight).dtype, dx = outputs[0].dtype;
  return {.flops = matmul_flops(op.shape(kDy), op.shape(kWeight)),
          .workspace = matmul_scratch(backend, op.shape(kDy).rows(), outputs[0].shape.back(),
                                      op.shape(kDy).back(), {dy, weight, dx})};
}

void reference(const RefArgs& a) {
  const WeightLayout w = WeightLayout::of(a.in(kWeight).shape(), a.attrs);
  for (int64_t r = 0; r < a.in(kDy).shape().rows(); ++r) {
    for (int64_t i = 0; i < w.in; ++i) {
      const auto at = static_cast<size_t>(r * w.in + i);
      double sum = 0;
      for (int64_t o = 0; o < w.out; ++o) {
        sum += a.in(kDy).v[static_cast<size_t>(r * w.out + o)] * a.in(kWeight).v[w.at(o, i)];
      }
      a.out(0).v[at] = sum;
    }
  }
  add_accumulators(linear_grad_input_def, a);
}
}  // namespace grad_input

// --- dW = dy^T x ------------------------------------------------------------------------------

namespace grad_weight {
enum In : size_t { kX, kDy, kSum };

std::vector<Type> infer(const OpView& op) {
  // No text is made of types that agree.
  if (op.shape(kX).with_back(1) != op.shape(kDy).with_back(1))
    op.require(false, "x {} and dy {} have different rows", op.in(kX).text(), op.in(kDy).text());
  if (op.in(kX).dtype != op.in(kDy).dtype)
    op.require(false, "x {} and dy {} are of different types", op.in(kX).text(), op.in(kDy).text());
  const WeightLayout w{op.shape(kDy).back(), op.shape(kX).back(), op.attrs.b(kWeightInOut, false)};
  const Type dweight{grad_dtype(op, op.in(kX).dtype), w.shape()};
  require_sum(op, kSum, dweight);
  return {dweight};
}

Cost cost(const OpView& op, std::span<const Type> outputs, Backend backend) {
  const Type& dweight = outputs[0];
  const Dtype x = op.in(kX).dtype;  // and dy's
  return {.flops = matmul_flops(op.shape(kX), dweight.shape),
          .workspace = matmul_scratch(backend, dweight.shape[0], dweight.shape[1],
                                      op.shape(kX).rows(), {x, x, dweight.dtype})};
}

void reference(const RefArgs& a) {
  const WeightLayout w = WeightLayout::of(a.out(0).shape(), a.attrs);
  const int64_t rows = a.in(kX).shape().rows();
  for (int64_t o = 0; o < w.out; ++o) {
    for (int64_t i = 0; i < w.in; ++i) {
      const size_t at = w.at(o, i);
      double sum = 0;
      for (int64_t r = 0; r < rows; ++r) {
        sum += a.in(kDy).v[static_cast<size_t>(r * w.out + o)] *
               a.in(kX).v[static_cast<size_t>(r * w.in + i)];
      }
      a.out(0).v[at] = sum;
    }
  }
  add_accumulators(linear_grad_weight_def, a);
}
}  // namespace grad_weight

// --- dbias = the sum of dy over rows ---------------------------------------------------------

namespace grad_bias {
enum In : size_t { kDy, kSum };

std::vector<Type> infer(const OpView& op) {
  const Type dbias{grad_dtype(op, op.in(kDy).dtype), {op.shape(kDy).back()}};
  require_sum(op, kSum, dbias);
  return {dbias};
}

Cost cost(const OpView& op, std::span<const Type>, Backend backend) {
  const Shape& dy = op.shape(kDy);
  return {.flops = dy.elements(),
          .workspace = backend == Backend::cuda
                           ? cuda_column_sum_scratch(dy.rows(), dy.back())
                           : column_sum_scratch(dy.back()) * size_of(Dtype::f32)};
}

void reference(const RefArgs& a) {
  const auto out = static_cast<size_t>(a.in(kDy).shape().back());
  for (size_t i = 0; i < a.in(kDy).v.size(); ++i) a.out(0).v[i % out] += a.in(kDy).v[i];
  add_accumulators(linear_grad_bias_def, a);
}
}  // namespace grad_bias

}  // namespace

const OpDef linear_grad_input_def{
    .kind = "linear_grad_input",
    .inputs = {"dy", "weight", optional("dx_sum")},
    .outputs = {"dx"},
    .infer = grad_input::infer,
    .cost = grad_input::cost,
    .accumulate = {{.output = 0, .input = grad_input::kSum}},
    .splits = {{"rows", {0, Split::kWhole, 0}, {0}, /*min_rank=*/2}},
    .matmul = true,
    .kernels = float_kernels(linear_grad_input_cpu,
                             {.run = SNUG_CUDA_KERNEL(linear_grad_input_cuda),
                              .prepare = SNUG_CUDA_KERNEL(linear_grad_input_cuda_prepare)}),
    .reference = grad_input::reference,
};

const OpDef linear_grad_weight_def{
    .kind = "linear_grad_weight",
    .inputs = {"x", "dy", optional("dweight_sum")},
    .outputs = {"dweight"},
    .infer = grad_weight::infer,
    .cost = grad_weight::cost,
    .accumulate = {{.output = 0, .input = grad_weight::kSum}},
    .splits = {{"rows", {0, 0, Split::kWhole}, {Split::kPartial}, /*min_rank=*/2}},
    .matmul = true,
    .kernels = float_kernels(linear_grad_weight_cpu,
                             {.run = SNUG_CUDA_KERNEL(linear_grad_weight_cuda),
                              .prepare = SNUG_CUDA_KERNEL(linear_grad_weight_cuda_prepare)}),
    .reference = grad_weight::reference,
};

const OpDef linear_grad_bias_def{
    .kind = "linear_grad_bias",
    .inputs = {"dy", optional("dbias_sum")},
    .outputs = {"dbias"},
    .infer = grad_bias::infer,
    .cost = grad_bias::cost,
    .accumulate = {{.output = 0, .input = grad_bias::kSum}},
    .splits = {{"rows", {0, Split::kWhole}, {Split::kPartial}, /*min_rank=*/2}},
    .kernels =
        float_kernels(linear_grad_bias_cpu, {.run = SNUG_CUDA_KERNEL(linear_grad_bias_cuda)}),
    .reference = grad_bias::reference,
};

}  // namespace snug::ops

#include "ops/linear/linear_cpu.h"

#include "kernels/cpu/column_sum.h"
#include "kernels/cpu/typed_gemm.h"
#include "ops/linear/weight_layout.h"

namespace snug::ops {
namespace {

bool is_in_out(const KernelArgs& a) { return a.attrs.b(kWeightInOut, false); }

const void* data_of(const KernelArgs& a, size_t port) {
  return a.has(port) ? a.in(port).data : nullptr;
}

const void* bias_of(const KernelArgs& a) {
  return a.attrs.b(kBiasHere, true) ? data_of(a, 2) : nullptr;
}

GemmTypes types_of(const Tensor& a, const Tensor& b, const Tensor& c) {
  return {a.type->dtype, b.type->dtype, c.type->dtype};
}

}  // namespace

void linear_cpu(const KernelArgs& a) {
  const Tensor &x = a.in(0), &weight = a.in(1), &y = a.out(0);
  typed_gemm({.m = x.shape().rows(),
              .n = y.shape().back(),
              .k = x.shape().back(),
              .types = types_of(x, weight, y),
              .a = x.data,
              .b = weight.data,
              .c = y.data,
              .transpose_b = !is_in_out(a),
              .bias = bias_of(a),
              .sum = data_of(a, 3),  // the residual
              .scratch = a.workspace.data()});
}

void linear_grad_input_cpu(const KernelArgs& a) {
  const Tensor &dy = a.in(0), &weight = a.in(1), &dx = a.out(0);
  typed_gemm({.m = dy.shape().rows(),
              .n = dx.shape().back(),
              .k = dy.shape().back(),
              .types = types_of(dy, weight, dx),
              .a = dy.data,
              .b = weight.data,
              .c = dx.data,
              .transpose_b = is_in_out(a),
              .sum = data_of(a, 2),
              .scratch = a.workspace.data()});
}

// dweight = dy^T x in the [out, in] layout, x^T dy in the other.
void linear_grad_weight_cpu(const KernelArgs& a) {
  const Tensor& left = a.in(is_in_out(a) ? 0 : 1);
  const Tensor& right = a.in(is_in_out(a) ? 1 : 0);
  const Tensor& dweight = a.out(0);
  typed_gemm({.m = left.shape().back(),
              .n = right.shape().back(),
              .k = left.shape().rows(),
              .types = types_of(left, right, dweight),
              .a = left.data,
              .b = right.data,
              .c = dweight.data,
              .transpose_a = true,
              .sum = data_of(a, 2),
              .scratch = a.workspace.data()});
}

void linear_grad_bias_cpu(const KernelArgs& a) {
  const Tensor &dy = a.in(0), &dbias = a.out(0);
  column_sum({.x = dy.data,
              .add = data_of(a, 1),
              .sum = dbias.data,
              .scratch = reinterpret_cast<float*>(a.workspace.data()),
              .rows = dy.shape().rows(),
              .columns = dy.shape().back(),
              .x_dtype = dy.type->dtype,
              .sum_dtype = dbias.type->dtype});
}

}  // namespace snug::ops

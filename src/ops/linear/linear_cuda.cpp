#include "ops/linear/linear_cuda.h"

#include "kernels/cuda/column_sum.h"
#include "kernels/cuda/gemm.h"
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

// left times right; the caller says how: dimensions, what is transposed, what is added.
CudaGemm gemm_of(const KernelArgs& a, const Tensor& left, const Tensor& right) {
  return {.a_dtype = left.type->dtype,
          .b_dtype = right.type->dtype,
          .c_dtype = a.out(0).type->dtype,
          .a = left.data,
          .b = right.data,
          .c = a.out(0).data,
          .workspace = a.workspace};
}

CudaGemm forward(const KernelArgs& a) {
  const Tensor& x = a.in(0);
  CudaGemm p = gemm_of(a, x, a.in(1));
  p.m = x.shape().rows();
  p.n = a.out(0).shape().back();
  p.k = x.shape().back();
  p.transpose_b = !is_in_out(a);
  p.bias = bias_of(a);
  p.sum = data_of(a, 3);  // the residual
  return p;
}

CudaGemm grad_input(const KernelArgs& a) {
  const Tensor& dy = a.in(0);
  CudaGemm p = gemm_of(a, dy, a.in(1));
  p.m = dy.shape().rows();
  p.n = a.out(0).shape().back();
  p.k = dy.shape().back();
  p.transpose_b = is_in_out(a);
  p.sum = data_of(a, 2);
  return p;
}

// dweight = dy^T x in the [out, in] layout, x^T dy in the other.
CudaGemm grad_weight(const KernelArgs& a) {
  const Tensor& left = a.in(is_in_out(a) ? 0 : 1);
  const Tensor& right = a.in(is_in_out(a) ? 1 : 0);
  CudaGemm p = gemm_of(a, left, right);
  p.m = left.shape().back();
  p.n = right.shape().back();
  p.k = left.shape().rows();
  p.transpose_a = true;
  p.sum = data_of(a, 2);
  return p;
}

}  // namespace

void linear_cuda(const KernelArgs& a) { cuda_gemm(forward(a), a.math, a.stream); }
void linear_cuda_prepare(const KernelArgs& a) { prepare_gemm(forward(a), a.math, a.stream); }

void linear_grad_input_cuda(const KernelArgs& a) { cuda_gemm(grad_input(a), a.math, a.stream); }
void linear_grad_input_cuda_prepare(const KernelArgs& a) {
  prepare_gemm(grad_input(a), a.math, a.stream);
}

void linear_grad_weight_cuda(const KernelArgs& a) { cuda_gemm(grad_weight(a), a.math, a.stream); }
void linear_grad_weight_cuda_prepare(const KernelArgs& a) {
  prepare_gemm(grad_weight(a), a.math, a.stream);
}

void linear_grad_bias_cuda(const KernelArgs& a) {
  const Tensor &dy = a.in(0), &dbias = a.out(0);
  cuda_column_sum({.x = dy.data,
                   .add = data_of(a, 1),
                   .sum = dbias.data,
                   .scratch = a.workspace.data(),
                   .rows = dy.shape().rows(),
                   .columns = dy.shape().back(),
                   .x_dtype = dy.type->dtype,
                   .sum_dtype = dbias.type->dtype},
                  a.stream);
}

}  // namespace snug::ops

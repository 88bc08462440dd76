#include "ops/linear/linear_parts_cuda.h"

#include <cuda_runtime_api.h>

#include "hal/cuda/cuda_error.h"
#include "kernels/cuda/gemm.h"
#include "ops/linear/part_gemms.h"

namespace snug::ops {
namespace {

using OneGemm = void (*)(const CudaGemm&, const Math&, void* stream);

// left times right; the caller says how: dimensions, strides, what is transposed.
CudaGemm gemm_of_part(const KernelArgs& a, const Tensor& left, const Tensor& right) {
  return {.a_dtype = left.type->dtype,
          .b_dtype = right.type->dtype,
          .c_dtype = a.out(0).type->dtype,
          .alpha = static_cast<float>(scale_of_parts(a.attrs)),
          .workspace = a.workspace};
}

void forward_parts(const KernelArgs& a, OneGemm run) {
  const Tensor &x = a.in(0), &weight = a.in(1), &y = a.out(0);
  const int64_t r = weight.shape()[1];
  for_each_reached(a, r, [&](const LinearPart& part) {
    CudaGemm p = gemm_of_part(a, x, weight);
    p.m = x.shape().rows();
    p.n = part.outputs;
    p.k = r;
    p.a = element_of(x, part.first_input);
    p.b = element_of(weight, part.first_row * r);
    p.c = element_of(y, part.first_output);
    p.a_stride = x.shape().back();
    p.c_stride = y.shape().back();
    p.transpose_b = true;
    p.sum = element_of_input(a, 2, part.first_output);
    run(p, a.math, a.stream);
  });
}

void grad_input_of_parts(const KernelArgs& a, OneGemm run) {
  const Tensor &dy = a.in(0), &weight = a.in(1), &dx = a.out(0);
  const int64_t r = weight.shape()[1];
  for_each_reached(a, r, [&](const LinearPart& part) {
    CudaGemm p = gemm_of_part(a, dy, weight);
    p.m = dy.shape().rows();
    p.n = r;
    p.k = part.outputs;
    p.a = element_of(dy, part.first_output);
    p.b = element_of(weight, part.first_row * r);
    p.c = element_of(dx, part.first_input);
    p.a_stride = dy.shape().back();
    p.c_stride = dx.shape().back();
    p.sum = element_of_input(a, 2, part.first_input);
    run(p, a.math, a.stream);
  });
}

void grad_weight_of_parts(const KernelArgs& a, OneGemm run) {
  const Tensor &x = a.in(0), &dy = a.in(1), &dweight = a.out(0);
  const int64_t r = dweight.shape()[1];
  for_each_reached(a, r, [&](const LinearPart& part) {
    CudaGemm p = gemm_of_part(a, dy, x);
    p.m = part.outputs;
    p.n = r;
    p.k = x.shape().rows();
    p.a = element_of(dy, part.first_output);
    p.b = element_of(x, part.first_input);
    p.c = element_of(dweight, part.first_row * r);
    p.a_stride = dy.shape().back();
    p.b_stride = x.shape().back();
    p.transpose_a = true;
    p.sum = element_of_input(a, 2, part.first_row * r);
    run(p, a.math, a.stream);
  });
}

// Zeros, or the residual where that is not there already.
void fill_unreached(const KernelArgs& a, const LinearPart& part) {
  const Tensor& y = a.out(0);
  if (a.has(2) && a.in(2).data == y.data) return;
  const auto size = static_cast<size_t>(size_of(y.type->dtype));
  const size_t pitch = static_cast<size_t>(y.shape().back()) * size;
  const size_t width = static_cast<size_t>(part.outputs) * size;
  const auto rows = static_cast<size_t>(y.shape().rows());
  auto* stream = static_cast<cudaStream_t>(a.stream);
  void* to = element_of(y, part.first_output);
  if (a.has(2)) {
    cuda::check(cudaMemcpy2DAsync(to, pitch, element_of(a.in(2), part.first_output), pitch, width,
                                  rows, cudaMemcpyDeviceToDevice, stream),
                "copying {} rows of a residual", rows);
  } else {
    cuda::check(cudaMemset2DAsync(to, pitch, 0, width, rows, stream), "clearing {} rows", rows);
  }
}

}  // namespace

void linear_parts_cuda(const KernelArgs& a) {
  for (const LinearPart& part : parts_of(a.attrs, a.in(1).shape()[1])) {
    if (!part.reached) fill_unreached(a, part);
  }
  forward_parts(a, cuda_gemm);
}
void linear_parts_cuda_prepare(const KernelArgs& a) { forward_parts(a, prepare_gemm); }

void linear_parts_grad_input_cuda(const KernelArgs& a) { grad_input_of_parts(a, cuda_gemm); }
void linear_parts_grad_input_cuda_prepare(const KernelArgs& a) {
  grad_input_of_parts(a, prepare_gemm);
}

void linear_parts_grad_weight_cuda(const KernelArgs& a) { grad_weight_of_parts(a, cuda_gemm); }
void linear_parts_grad_weight_cuda_prepare(const KernelArgs& a) {
  grad_weight_of_parts(a, prepare_gemm);
}

}  // namespace snug::ops

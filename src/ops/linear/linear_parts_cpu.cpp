#include "ops/linear/linear_parts_cpu.h"

#include <cstring>

#include "kernels/cpu/typed_gemm.h"
#include "ops/linear/part_gemms.h"

namespace snug::ops {
namespace {

// Zeros, or the residual where that is not there already.
void fill_unreached(const KernelArgs& a, const LinearPart& part) {
  const Tensor& y = a.out(0);
  const int64_t out = y.shape().back();
  const auto bytes = static_cast<size_t>(part.outputs * size_of(y.type->dtype));
  if (a.has(2) && a.in(2).data == y.data) return;
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < y.shape().rows(); ++row) {
    const int64_t at = row * out + part.first_output;
    if (a.has(2)) {
      std::memcpy(element_of(y, at), element_of(a.in(2), at), bytes);
    } else {
      std::memset(element_of(y, at), 0, bytes);
    }
  }
}

}  // namespace

void linear_parts_cpu(const KernelArgs& a) {
  const Tensor &x = a.in(0), &weight = a.in(1), &y = a.out(0);
  const int64_t r = weight.shape()[1];
  for (const LinearPart& part : parts_of(a.attrs, r)) {
    if (!part.reached) fill_unreached(a, part);
  }
  for_each_reached(a, r, [&](const LinearPart& part) {
    typed_gemm({.m = x.shape().rows(),
                .n = part.outputs,
                .k = r,
                .types = {x.type->dtype, weight.type->dtype, y.type->dtype},
                .a = element_of(x, part.first_input),
                .b = element_of(weight, part.first_row * r),
                .c = element_of(y, part.first_output),
                .lda = x.shape().back(),
                .ldc = y.shape().back(),
                .transpose_b = true,
                .alpha = scale_of_parts(a.attrs),
                .sum = element_of_input(a, 2, part.first_output),
                .scratch = a.workspace.data()});
  });
}

void linear_parts_grad_input_cpu(const KernelArgs& a) {
  const Tensor &dy = a.in(0), &weight = a.in(1), &dx = a.out(0);
  const int64_t r = weight.shape()[1];
  for_each_reached(a, r, [&](const LinearPart& part) {
    typed_gemm({.m = dy.shape().rows(),
                .n = r,
                .k = part.outputs,
                .types = {dy.type->dtype, weight.type->dtype, dx.type->dtype},
                .a = element_of(dy, part.first_output),
                .b = element_of(weight, part.first_row * r),
                .c = element_of(dx, part.first_input),
                .lda = dy.shape().back(),
                .ldc = dx.shape().back(),
                .alpha = scale_of_parts(a.attrs),
                .sum = element_of_input(a, 2, part.first_input),
                .scratch = a.workspace.data()});
  });
}

void linear_parts_grad_weight_cpu(const KernelArgs& a) {
  const Tensor &x = a.in(0), &dy = a.in(1), &dweight = a.out(0);
  const int64_t r = dweight.shape()[1];
  for_each_reached(a, r, [&](const LinearPart& part) {
    typed_gemm({.m = part.outputs,
                .n = r,
                .k = x.shape().rows(),
                .types = {dy.type->dtype, x.type->dtype, dweight.type->dtype},
                .a = element_of(dy, part.first_output),
                .b = element_of(x, part.first_input),
                .c = element_of(dweight, part.first_row * r),
                .lda = dy.shape().back(),
                .ldb = x.shape().back(),
                .transpose_a = true,
                .alpha = scale_of_parts(a.attrs),
                .sum = element_of_input(a, 2, part.first_row * r),
                .scratch = a.workspace.data()});
  });
}

}  // namespace snug::ops

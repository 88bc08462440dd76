#include "ops/linear/linear_cpu.h"

#include "ops/blas/blas.h"
#include "ops/column_sum.h"
#include "ops/for_blocks.h"
#include "ops/linear/weight_layout.h"

namespace snug::ops {
namespace {

// What the product is added to: residual, bias in every row, or both. Costs no more than a plain
// product, which clears y first.
void start_rows(float* y, const float* bias, const float* residual, int64_t rows, int64_t out) {
  if (bias == nullptr) return copy_elements(residual, y, rows * out);
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < rows; ++r) {
    float* yr = y + r * out;
    const float* rr = residual != nullptr ? residual + r * out : nullptr;
    if (rr == nullptr) {
      std::copy_n(bias, out, yr);
    } else {
#pragma omp simd
      for (int64_t c = 0; c < out; ++c) yr[c] = rr[c] + bias[c];
    }
  }
}

// A sum that an output starts from, where there is one. Returns whether the product is to be added.
bool start_from(const KernelArgs& a, size_t sum_port) {
  if (!a.has(sum_port)) return false;
  copy_elements(a.in<float>(sum_port), a.out<float>(0), a.out(0).elements());
  return true;
}

bool is_in_out(const KernelArgs& a) { return a.attrs.b(kWeightInOut, false); }

}  // namespace

void linear_cpu(const KernelArgs& a) {
  const int64_t rows = a.in(0).shape().rows();
  const int64_t in = a.in(0).shape().back();
  const int64_t out = a.out(0).shape().back();
  const float* bias = a.in<float>(2);      // [out] or absent
  const float* residual = a.in<float>(3);  // [rows, out] or absent
  float* y = a.out<float>(0);              // [rows, out], may be residual
  const bool starts = bias != nullptr || residual != nullptr;
  if (starts) start_rows(y, bias, residual, rows, out);
  gemm({.m = rows,
        .n = out,
        .k = in,
        .a = a.in<float>(0),
        .b = a.in<float>(1),
        .c = y,
        .transpose_b = !is_in_out(a),
        .accumulate = starts});
}

void linear_grad_input_cpu(const KernelArgs& a) {
  const bool starts = start_from(a, 2);
  gemm({.m = a.in(0).shape().rows(),
        .n = a.out(0).shape().back(),
        .k = a.in(0).shape().back(),
        .a = a.in<float>(0),
        .b = a.in<float>(1),
        .c = a.out<float>(0),
        .transpose_b = is_in_out(a),
        .accumulate = starts});
}

// dweight = dy^T x in the [out, in] layout, x^T dy in the other.
void linear_grad_weight_cpu(const KernelArgs& a) {
  const size_t left = is_in_out(a) ? 0 : 1;
  const size_t right = 1 - left;
  const bool starts = start_from(a, 2);
  gemm({.m = a.in(left).shape().back(),
        .n = a.in(right).shape().back(),
        .k = a.in(0).shape().rows(),
        .a = a.in<float>(left),
        .b = a.in<float>(right),
        .c = a.out<float>(0),
        .transpose_a = true,
        .accumulate = starts});
}

void linear_grad_bias_cpu(const KernelArgs& a) {
  column_sum({.x = a.in<float>(0),
              .add = a.in<float>(1),
              .sum = a.out<float>(0),
              .scratch = reinterpret_cast<float*>(a.workspace.data()),
              .rows = a.in(0).shape().rows(),
              .columns = a.in(0).shape().back()});
}

}  // namespace snug::ops

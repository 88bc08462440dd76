// linear_cross_entropy on CUDA: as on the CPU a sweep over chunks of tokens, but the logits of a
// chunk are in scratch in the type of x, so that all three GEMMs run on tensor cores. Softmax
// and losses are fp32 and wider inside.
#pragma once

#include <algorithm>

#include "base/units.h"
#include "kernels/cuda/column_sum.h"
#include "kernels/cuda/gemm.h"
#include "ops/loss/linear_cross_entropy_cpu.h"

namespace snug::ops {

void linear_cross_entropy_cuda(const KernelArgs& a);
void linear_cross_entropy_cuda_prepare(const KernelArgs& a);
void linear_cross_entropy_grad_cuda(const KernelArgs& a);  // of all three backward ops
void linear_cross_entropy_grad_cuda_prepare(const KernelArgs& a);

// Elements from a row of logits to the next. Rows start on 128 bytes: cuBLASLt's fast kernels (TMA)
// ask for a multiple of 16, and rows that begin with a cache line share none with their neighbours.
inline int64_t cuda_logits_stride(const LossHead& h) {
  constexpr int64_t kRowAlign = 128;
  return round_up(h.V, kRowAlign / size_of(h.dtype));
}

// Byte offsets in the scratch: losses [rows] f64 at its start, logits [chunk, V] in the type of x
// and with that stride, for a bias gradient its column sums and its sum over the chunks [V] f32,
// and what GEMMs ask for.
struct CudaLossScratch {
  int64_t logits, column_sums, dbias, gemm, end;

  static CudaLossScratch of(const LossHead& h) {
    const char* what = "the logits of a chunk";
    int64_t end = 0;
    const auto place = [&](int64_t bytes) {
      constexpr int64_t kAlign = 256;
      const int64_t at = round_up(end, kAlign);
      end = checked_add(at, bytes, what);
      return at;
    };
    const int64_t n = std::min(h.rows, h.chunk);
    place(checked_mul(h.rows, size_of(Dtype::f64), what));
    CudaLossScratch at{};
    at.logits =
        place(checked_mul(checked_mul(n, cuda_logits_stride(h), what), size_of(h.dtype), what));
    at.column_sums = place(h.dbias ? cuda_column_sum_scratch(n, h.V) : 0);
    at.dbias = place(h.dbias ? checked_mul(h.V, size_of(Dtype::f32), what) : 0);
    at.gemm = place(cuda_gemm_workspace(n, h.V, h.C));  // of all three: the same dimensions
    at.end = end;
    return at;
  }
};

}  // namespace snug::ops

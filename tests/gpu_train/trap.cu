#include "gpu_train/trap.h"
#include "kernels/cuda/kernel.cuh"

namespace snug {
namespace {

__global__ void copy_or_trap(const float* x, float* y, int64_t n, bool armed) {
  if (armed && x[0] < 0) __trap();
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) y[i] = x[i];
}

}  // namespace

void trap_cuda(const KernelArgs& a) {
  copy_or_trap<<<1, 32, 0, ops::stream_of(a)>>>(a.in<float>(0), a.out<float>(0),
                                                a.out(0).elements(), a.attrs.i("armed") != 0);
  ops::check_launch("copy_or_trap");
}

}  // namespace snug

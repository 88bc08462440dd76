// How the gradient of a table begins where only some of its rows are touched.
#pragma once

#include "kernels/cuda/kernel.cuh"

namespace snug::ops {

// The output starts as the sum that it is added to (nothing to do in place), or as zeros. Says
// whether there is a sum.
inline bool start_from(const KernelArgs& a, size_t sum_port) {
  void* out = a.out(0).data;
  const auto bytes = static_cast<size_t>(a.out(0).type->bytes());
  if (!a.has(sum_port)) {
    cuda::check(cudaMemsetAsync(out, 0, bytes, stream_of(a)), "clearing {} bytes", bytes);
    return false;
  }
  const void* sum = a.in(sum_port).data;
  if (sum == out) return true;
  cuda::check(cudaMemcpyAsync(out, sum, bytes, cudaMemcpyDeviceToDevice, stream_of(a)),
              "copying {} bytes", bytes);
  return true;
}

}  // namespace snug::ops

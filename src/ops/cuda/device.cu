#include "ops/cuda/kernel.cuh"

namespace snug::ops {

int multiprocessors() {
  static const int count = [] {
    int device = 0, value = 0;
    cuda::check(cudaGetDevice(&device), "asking for the device");
    cuda::check(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, device),
                "counting multiprocessors");
    return value;
  }();
  return count;
}

}  // namespace snug::ops

#include "kernels/cuda/kernel.cuh"
#include "kernels/cuda/shared_memory.h"

namespace snug::ops {
namespace {

int ask(cudaDeviceAttr what) {
  int device = 0, value = 0;
  cuda::check(cudaGetDevice(&device), "asking for the device");
  cuda::check(cudaDeviceGetAttribute(&value, what, device), "asking what the device has");
  return value;
}

}  // namespace

int multiprocessors() {
  static const int count = ask(cudaDevAttrMultiProcessorCount);
  return count;
}

int64_t most_dynamic_shared(const void* kernel) {
  static const int64_t most = ask(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  cudaFuncAttributes facts{};
  cuda::check(cudaFuncGetAttributes(&facts, kernel), "asking for a kernel's shared memory");
  return most - static_cast<int64_t>(facts.sharedSizeBytes);
}

}  // namespace snug::ops

#include "hal/cuda/event.h"

namespace snug::cuda {
namespace {

__global__ void wait_for(int64_t ns) {
  const auto now = [] {
    int64_t t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
  };
  for (const int64_t start = now(); now() - start < ns;) __nanosleep(500);
}

}  // namespace

void wait_on_device(double us, cudaStream_t stream) {
  wait_for<<<1, 1, 0, stream>>>(static_cast<int64_t>(us * 1e3));
  check(cudaGetLastError(), "keeping a stream waiting");
}

}  // namespace snug::cuda

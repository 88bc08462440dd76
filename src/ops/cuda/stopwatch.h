// Times what is enqueued on a stream, by the device's own clock. Waits for it: never in a capture.
//
//   Stopwatch watch(stream);
//   launch();
//   const double ms = watch.stop();
#pragma once

#include "hal/cuda/cuda_error.h"

namespace snug::ops {

class Stopwatch {
 public:
  explicit Stopwatch(cudaStream_t stream) : stream_(stream) {
    cuda::check(cudaEventCreate(&begin_), "making an event");
    cuda::check(cudaEventCreate(&end_), "making an event");
    cuda::check(cudaEventRecord(begin_, stream_), "recording an event");
  }
  ~Stopwatch() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  double stop() {
    float ms = 0;
    cuda::check(cudaEventRecord(end_, stream_), "recording an event");
    cuda::check(cudaEventSynchronize(end_), "timing kernels");
    cuda::check(cudaEventElapsedTime(&ms, begin_, end_), "timing kernels");
    return ms;
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace snug::ops

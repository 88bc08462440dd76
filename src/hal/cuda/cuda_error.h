// One line after every call of the CUDA runtime: anything but success becomes a failure that says
// what was being done. The executor adds op, layer and step.
//
//   check(cudaMallocAsync(&p, n, s), "allocating {} bytes", n);
#pragma once

#include <cuda_runtime_api.h>

#include "hal/device_failure.h"

namespace snug::cuda {

template <typename... Args>
void check(cudaError_t status, fmt::format_string<Args...> format, Args&&... args) {
  if (status == cudaSuccess) return;
  throw DeviceFailure(fmt::format("CUDA failed while {}: {} ({})",
                                  fmt::format(format, std::forward<Args>(args)...),
                                  cudaGetErrorString(status), cudaGetErrorName(status)));
}

}  // namespace snug::cuda

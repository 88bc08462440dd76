// The answers of a build without a CUDA toolkit. NVML still knows the driver and the GPUs.
#include "hal/cuda/probe.h"

namespace snug {

CudaProbe probe_cuda() { return {.driver = probe_driver(), .why_not = why_no_cuda()}; }

std::string why_no_cuda() {
  return "this build has no CUDA backend: there was no CUDA toolkit when it was made";
}

std::optional<int64_t> gpu_used_bytes(int) { return {}; }
std::optional<int64_t> gpu_free_bytes(int) { return {}; }
std::optional<int64_t> gpu_bytes_of_this_process(int) { return {}; }
GpuGauges gauges_of_this_gpu() { return {}; }

}  // namespace snug

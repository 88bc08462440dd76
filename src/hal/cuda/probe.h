// What of CUDA is here, told without a context and without device memory. It never throws: what is
// missing is part of the answer.
//
//   if (const std::string why = why_no_cuda(); !why.empty()) throw device_error("{}", why);
#pragma once

#include "hal/cuda/gpu_code.h"
#include "hal/cuda/usable.h"
#include "hal/nvml.h"

namespace snug {

struct LibraryProbe {
  std::string file;     // what is opened: "libcudnn.so.9"
  std::string version;  // "9.13.0"; empty: it cannot be opened
};

struct CudaProbe {
  bool built = false;        // has this build the CUDA backend
  int toolkit = 0;           // what it was built with: 13000 for 13.0
  bool cudnn_built = false;  // ... and with cudnn-frontend, so that attention is cuDNN's
  std::vector<BuiltArchitecture> built_for;  // what its device code was compiled for
  // Its GPUs are numbered as CUDA numbers them, or as NVML does where CUDA cannot use them.
  DriverProbe driver;
  LibraryProbe cublas_lt, cudnn, nccl;  // in a build with CUDA
  std::string why_not;                  // why_no_cuda()
};
CudaProbe probe_cuda();

// Is the GPU new enough, and has this binary code for it?
inline bool works_on(const CudaProbe& probe, const GpuProbe& gpu) {
  const int capability = 10 * gpu.major + gpu.minor;
  return features_of(capability).supported &&
         (probe.built_for.empty() || code_for(probe.built_for, capability) != GpuCode::none);
}

// A sentence for refusals: no backend in this build, no driver, a driver too old (with both
// numbers), no GPU. Empty: there is a GPU to use.
std::string why_no_cuda();

// What nvidia-smi shows as used on a GPU, by all processes, and as free. None: NVML does not tell.
std::optional<int64_t> gpu_used_bytes(int device);
std::optional<int64_t> gpu_free_bytes(int device);
// What it shows of this process alone. None: NVML does not tell, or knows it by another number (in
// containers).
std::optional<int64_t> gpu_bytes_of_this_process(int device);

// Of the GPU that this thread uses.
GpuGauges gauges_of_this_gpu();

}  // namespace snug

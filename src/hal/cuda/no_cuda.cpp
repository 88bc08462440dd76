// The device of a build without a CUDA toolkit.
#include "base/error.h"
#include "hal/cuda/cuda_device.h"

namespace snug {

std::unique_ptr<CudaDevice> cuda_device(int) {
  throw device_error("this build has no CUDA backend: no toolkit (nvcc) was found when it was made")
      .hint("install the CUDA toolkit and run ./dev build again; `snug doctor` says what is there");
}

}  // namespace snug

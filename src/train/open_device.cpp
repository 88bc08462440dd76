#include "train/open_device.h"

#include "base/error.h"
#include "hal/cpu/cpu_device.h"
#include "hal/cuda/cuda_device.h"

namespace snug {
namespace {

constexpr int kFirstWithBf16 = 80;

std::unique_ptr<Device> open_gpu(const Resolved& run) {
  std::unique_ptr<CudaDevice> device = cuda_device();
  if (run.recipe.precision == Dtype::bf16 && device->capability() < kFirstWithBf16) {
    throw device_error("{} has compute capability {}.{}: bf16 needs 8.0", device->name(),
                       device->capability() / 10, device->capability() % 10)
        .hint("--precision fp16 or fp32");
  }
  return device;
}

}  // namespace

std::unique_ptr<Device> open_device(const Resolved& run) {
  if (run.options.device == "cuda") return open_gpu(run);
  if (run.options.device == "cpu") return cpu_device();
  return nullptr;
}

}  // namespace snug

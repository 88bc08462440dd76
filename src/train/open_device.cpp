#include "train/open_device.h"

#include "base/error.h"
#include "cost/step_cost.h"
#include "hal/cpu/cpu_device.h"
#include "hal/cuda/cuda_device.h"
#include "kernels/cpu/gemm.h"

namespace snug {
namespace {

constexpr int kFirstWithBf16 = 80;

static_assert(context_bytes(Backend::cuda) == CudaDevice::kContextBytes,
              "what a plan counts is what the device grants");

std::unique_ptr<Device> open_gpu(const Resolved& run) {
  std::unique_ptr<CudaDevice> device = cuda_device();
  require_precision(run.recipe.precision, device->capability(), device->name());
  return device;
}

}  // namespace

void require_precision(Dtype precision, int capability, std::string_view gpu) {
  if (precision != Dtype::bf16 || capability >= kFirstWithBf16) return;
  throw device_error("{} has compute capability {}.{}: bf16 needs 8.0", gpu, capability / 10,
                     capability % 10)
      .hint("--precision fp16 or fp32");
}

std::unique_ptr<Device> open_device(const Resolved& run) {
  if (run.options.device == "cuda") return open_gpu(run);
  if (run.options.device == "null") return nullptr;
  ops::take_gemm_buffers();
  return cpu_device();
}

}  // namespace snug

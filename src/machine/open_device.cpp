#include "machine/open_device.h"

#include "comm/nccl.h"
#include "cost/step_cost.h"
#include "hal/cpu/cpu_device.h"
#include "hal/cuda/cuda_device.h"
#include "kernels/cpu/gemm.h"

namespace snug {
namespace {

static_assert(context_bytes(Backend::cuda) == CudaDevice::kContextBytes,
              "what a plan counts is what the device grants");
static_assert(groups_bytes(Backend::cuda, 4, 4, true) == kNcclBytes + 2 * kNcclGroupBytes &&
                  groups_bytes(Backend::cuda, 4, 2, true) == kNcclBytes + 4 * kNcclGroupBytes,
              "what a plan counts is what the library and its groups are granted");
static_assert(host_context_bytes(Backend::cuda) ==
                  host_context_bytes(Backend::cpu) + CudaDevice::kUploadBytes,
              "what a plan counts is what uploads and loading hold");

}  // namespace

std::unique_ptr<Device> open_device(const Resolved& run, int gpu) {
  if (run.options.device == DeviceChoice::cuda) return cuda_device(gpu);
  if (run.options.device == DeviceChoice::null) return nullptr;
  ops::take_gemm_buffers();
  return cpu_device();
}

}  // namespace snug

#include "kernels/cuda/device.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/notes.h"
#include "hal/cuda/cuda_error.h"
#include "kernels/cuda/device_cards.h"
#include "kernels/cuda/shared_memory.h"

namespace snug::ops {
namespace {

constexpr int64_t KiB = 1024;

DeviceFacts real_facts() {
  int device = 0;
  cuda::check(cudaGetDevice(&device), "asking for the device");
  cudaDeviceProp properties{};
  cuda::check(cudaGetDeviceProperties(&properties, device), "asking what the device has");
  return {.name = properties.name,
          .multiprocessors = properties.multiProcessorCount,
          .shared_of_block = static_cast<int64_t>(properties.sharedMemPerBlockOptin),
          .early_launches = properties.major >= 9};
}

DeviceFacts facts() {
  DeviceFacts real = real_facts();
  const char* card = std::getenv("SNUG_GPU_AS");
  if (card == nullptr || std::string_view(card).empty()) return real;
  DeviceFacts capped = as_card(real, card);
  note("SNUG_GPU_AS={}: kernels have {} multiprocessors and {} KiB of shared memory a block{}",
       card, capped.multiprocessors, capped.shared_of_block / KiB,
       capped.early_launches ? "" : ", and do not overlap");
  return capped;
}

cudaFuncAttributes attributes_of(const void* kernel) {
  cudaFuncAttributes attributes{};
  cuda::check(cudaFuncGetAttributes(&attributes, kernel), "asking for a kernel's shared memory");
  return attributes;
}

}  // namespace

const DeviceFacts& device_facts() {
  static const DeviceFacts asked = facts();
  return asked;
}

int64_t most_dynamic_shared(const void* kernel) {
  return device_facts().shared_of_block -
         static_cast<int64_t>(attributes_of(kernel).sharedSizeBytes);
}

void require_shared(const DeviceFacts& device, int64_t fixed, int64_t dynamic) {
  if (fixed + dynamic <= device.shared_of_block) return;
  throw DeviceFailure(
      fmt::format("a kernel wants {} bytes of shared memory for a block; {} grants {}",
                  fixed + dynamic, device.name, device.shared_of_block));
}

void allow_shared(const void* kernel, int64_t bytes) {
  constexpr int64_t kGrantedUnasked = 48 * KiB;
  const cudaFuncAttributes attributes = attributes_of(kernel);
  const auto fixed = static_cast<int64_t>(attributes.sharedSizeBytes);
  if (fixed + bytes <= kGrantedUnasked) return;
  require_shared(device_facts(), fixed, bytes);
  // Never less than before: a graph may hold a launch that has more.
  const int most = std::max(static_cast<int>(bytes), attributes.maxDynamicSharedSizeBytes);
  cuda::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most),
              "asking for {} bytes of shared memory for a block", most);
}

}  // namespace snug::ops

// An NVIDIA GPU as a device: a stream for each lane, one arena from a single allocation and one in
// pinned host memory, a ring of pinned slots for what goes up, graphs for what is enqueued again and
// again.
//
//   auto device = cuda_device();                 // throws a device error that says what is missing
//   device->memory().free                        // bytes, now
#pragma once

#include <memory>

#include "hal/device.h"

namespace snug {

struct GpuMemory {
  int64_t free = 0, total = 0;
};

class CudaDevice : public Device {
 public:
  // What driver and libraries are granted in addition to the arena; an H200's take 534 to 552 MiB.
  static constexpr int64_t kContextBytes = int64_t{576} << 20;
  // Pinned host memory that uploads pass through.
  static constexpr int64_t kUploadBytes = int64_t{32} << 20;

  virtual GpuMemory memory() const = 0;
};

std::unique_ptr<CudaDevice> cuda_device(int ordinal = 0);

}  // namespace snug

// In a build without a CUDA toolkit no device has a stream to time.
#include "base/error.h"
#include "hal/cuda/stream_times.h"

namespace snug {

std::vector<double> stream_times_ms(Device& device, size_t, const std::function<void(size_t)>&) {
  throw internal_error("device '{}' has no stream", device.name());
}

double copy_bytes_per_s(Device& device) {
  throw internal_error("device '{}' has no stream", device.name());
}

}  // namespace snug

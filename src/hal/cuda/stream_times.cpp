#include "hal/cuda/stream_times.h"

#include "base/median.h"
#include "hal/cuda/event.h"

namespace snug {
std::vector<double> stream_times_ms(Device& device, size_t count,
                                    const std::function<void(size_t)>& enqueue) {
  return cuda::times_ms(static_cast<cudaStream_t>(device.stream()), count, enqueue);
}

double copy_bytes_per_s(Device& device) {
  constexpr size_t kBytes = size_t{1} << 30;  // far beyond any cache
  constexpr size_t kWarmUp = 5, kCopies = 20;
  const std::unique_ptr<Memory> memory = device.allocate(2 * kBytes);
  const auto stream = static_cast<cudaStream_t>(device.stream());
  std::vector<double> ms = stream_times_ms(device, kWarmUp + kCopies, [&](size_t) {
    cuda::check(cudaMemcpyAsync(memory->data() + kBytes, memory->data(), kBytes,
                                cudaMemcpyDeviceToDevice, stream),
                "copying {} bytes on the device", kBytes);
  });
  ms.erase(ms.begin(), ms.begin() + kWarmUp);
  return 2.0 * kBytes / (median(std::move(ms)) * 1e-3);
}

}  // namespace snug

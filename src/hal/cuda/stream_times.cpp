#include "hal/cuda/stream_times.h"

#include <cuda_runtime_api.h>

#include "base/median.h"
#include "hal/cuda/cuda_error.h"

namespace snug {
namespace {

using cuda::check;

// Moments on one stream, in order.
class Moments {
 public:
  explicit Moments(Device& device) : stream_(static_cast<cudaStream_t>(device.stream())) {}
  ~Moments() {
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
  }
  Moments(const Moments&) = delete;
  Moments& operator=(const Moments&) = delete;

  void add() {
    cudaEvent_t event = nullptr;
    check(cudaEventCreate(&event), "making an event");
    events_.push_back(event);
    check(cudaEventRecord(event, stream_), "recording an event");
  }
  // Milliseconds between neighbours, when all have passed.
  std::vector<double> differences() const {
    check(cudaEventSynchronize(events_.back()), "waiting for the device");
    std::vector<double> out;
    for (size_t i = 1; i < events_.size(); ++i) {
      float ms = 0;
      check(cudaEventElapsedTime(&ms, events_[i - 1], events_[i]), "reading a time");
      out.push_back(ms);
    }
    return out;
  }

 private:
  cudaStream_t stream_;
  std::vector<cudaEvent_t> events_;
};

}  // namespace

std::vector<double> stream_times_ms(Device& device, size_t count,
                                    const std::function<void(size_t)>& enqueue) {
  Moments moments(device);
  moments.add();
  for (size_t i = 0; i < count; ++i) {
    enqueue(i);
    moments.add();
  }
  return moments.differences();
}

double copy_bytes_per_s(Device& device) {
  constexpr size_t kBytes = size_t{1} << 30;  // far beyond any cache
  constexpr size_t kWarmUp = 5, kCopies = 20;
  const std::unique_ptr<Memory> memory = device.allocate(2 * kBytes);
  const auto stream = static_cast<cudaStream_t>(device.stream());
  std::vector<double> ms = stream_times_ms(device, kWarmUp + kCopies, [&](size_t) {
    check(cudaMemcpyAsync(memory->data() + kBytes, memory->data(), kBytes, cudaMemcpyDeviceToDevice,
                          stream),
          "copying {} bytes on the device", kBytes);
  });
  ms.erase(ms.begin(), ms.begin() + kWarmUp);
  return 2.0 * kBytes / (median(std::move(ms)) * 1e-3);
}

}  // namespace snug

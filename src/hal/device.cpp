#include "hal/device.h"

#include <chrono>

#include "base/error.h"

namespace snug {

std::unique_ptr<Recording> Device::record(const std::function<void()>&) {
  throw internal_error("device {} has no stream to record", name());
}

double Device::time_ms(const std::function<void()>& enqueue) {
  const auto start = std::chrono::steady_clock::now();
  enqueue();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace snug

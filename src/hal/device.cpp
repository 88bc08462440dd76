#include "hal/device.h"

#include "base/error.h"

namespace snug {

std::unique_ptr<Recording> Device::record(const std::function<void()>&) {
  throw internal_error("device {} has no stream to record", name());
}

}  // namespace snug

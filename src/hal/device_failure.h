// A device that did not do what it was told: the driver's own words. The executor adds the op, the
// layer and the step.
#pragma once

#include "base/error.h"

namespace snug {

struct DeviceFailure : Error {
  explicit DeviceFailure(const std::string& what) : Error(ExitCode::device, what) {}
};

}  // namespace snug

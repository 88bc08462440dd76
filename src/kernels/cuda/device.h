// What a kernel's launch asks of the device.
#pragma once

namespace snug::ops {

// Multiprocessors of the current device, asked once.
int multiprocessors();

}  // namespace snug::ops

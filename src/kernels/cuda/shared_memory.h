// Shared memory beyond the 48 KiB that every device grants unasked: 99 KiB on small chips, 227 on
// large ones. A kernel that wants more than there is has another path.
//
//   if (bytes > most_dynamic_shared(kernel)) return false;   // another kernel takes it
//   launch_with_shared(kernel, grid, block, bytes, stream, p);  // launch.cuh: allow_shared
#pragma once

#include <cstdint>

#include "kernels/cuda/device.h"

namespace snug::ops {

// Bytes of dynamic shared memory that a block of this kernel may have, without its static arrays.
int64_t most_dynamic_shared(const void* kernel);

// Before a launch with `bytes` of dynamic shared memory: asks for them where they are not granted
// unasked, or throws where the device has less.
void allow_shared(const void* kernel, int64_t bytes);

// Throws where a block with `fixed` bytes of static arrays and `dynamic` more does not fit.
void require_shared(const DeviceFacts& device, int64_t fixed, int64_t dynamic);

template <typename... Params>
int64_t most_dynamic_shared(void (*kernel)(Params...)) {
  return most_dynamic_shared(reinterpret_cast<const void*>(kernel));
}
template <typename... Params>
void allow_shared(void (*kernel)(Params...), int64_t bytes) {
  allow_shared(reinterpret_cast<const void*>(kernel), bytes);
}

}  // namespace snug::ops

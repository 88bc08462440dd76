// What the current device has, as far as kernels choose by it. A kernel that wants more than some
// card has, or something that some lack, asks here and takes another shape or path.
#pragma once

#include <cstdint>
#include <string>

namespace snug::ops {

struct DeviceFacts {
  std::string name;  // "NVIDIA H200"
  int multiprocessors = 0;
  int64_t shared_of_block = 0;  // bytes of shared memory, a kernel's static arrays included
  bool early_launches = false;  // programmatic dependent launch (launch.cuh)
};

// Asked once. With SNUG_GPU_AS=CARD in the environment: as that card would have it (device_cards.h).
const DeviceFacts& device_facts();

inline int multiprocessors() { return device_facts().multiprocessors; }

}  // namespace snug::ops

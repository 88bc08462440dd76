// What the current device has, as far as kernels choose by it. A kernel that wants more than some
// card has, or something that some lack, asks here and takes another shape or path.
#pragma once

#include <cstdint>
#include <string>

namespace snug::ops {

struct DeviceFacts {
  std::string name;    // "NVIDIA H200"
  int capability = 0;  // 90 for 9.0
  int multiprocessors = 0;
  int threads = 0;              // that a multiprocessor holds at once
  int64_t shared = 0;           // bytes of shared memory of a multiprocessor
  int64_t shared_of_block = 0;  // ... and of a block, its static arrays included
  bool early_launches = false;  // programmatic dependent launch (launch.cuh)
};

// Asked once. With SNUG_GPU_AS=CARD in the environment: as that card would have it (device_cards.h).
const DeviceFacts& device_facts();

inline int multiprocessors() { return device_facts().multiprocessors; }

}  // namespace snug::ops

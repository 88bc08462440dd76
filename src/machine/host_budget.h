// The host memory that a run may take where --host-budget is not given: the system's available
// memory, less a reserve for everything else.
#pragma once

#include <algorithm>
#include <cstdint>

namespace snug {

// 1 GiB or 5 %, whichever is more, is left alone. `available`: hal/cpu's available_memory_bytes,
// which honours a container's limit. `arena`: bytes of the device's arena, where that is in the
// same memory.
constexpr int64_t host_budget_of(int64_t available, int64_t arena = 0) {
  const int64_t reserve = std::max(int64_t{1} << 30, available / 20);
  return std::max<int64_t>(0, available - reserve - arena);
}

}  // namespace snug

// What helps where the system does not pin host memory, in a sentence: apart from the asking, so that
// every answer can be tried.
//
//   what_helps_to_pin(int64_t{1} << 30, lockable_bytes())
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/units.h"

namespace snug {

// `lockable`: what this process may lock, where that is limited.
inline std::string what_helps_to_pin(int64_t bytes, std::optional<int64_t> lockable) {
  if (lockable && *lockable < bytes) {
    return fmt::format(
        "`ulimit -l` is {}: raise it (docker: --ulimit memlock=-1), or give a smaller "
        "--host-budget",
        format_bytes(*lockable));
  }
  return "a smaller --host-budget plans inside less; a container's memory limit (cgroup) bounds "
         "what "
         "may be pinned";
}

}  // namespace snug

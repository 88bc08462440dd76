// What a container leaves of the machine's memory: control groups, both versions. A process that
// passes the limit is killed, so an arena must not be planned against more than this.
//
//   if (auto left = memory_limit_left()) available = std::min(available, *left);
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace snug {

// None: no limit is set, or none can be read. Caches that the kernel can drop count as left. `root`
// is where /proc and /sys are looked for.
std::optional<int64_t> memory_limit_left(const std::filesystem::path& root = "/");

// What this process may lock in memory (ulimit -l). None: as much as there is. Not part of the limit
// above: NVIDIA's driver pins without asking for it, so it is only named where pinning fails.
std::optional<int64_t> lockable_bytes();

}  // namespace snug

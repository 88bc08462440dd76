#include "measure/disk_rates.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/rng.h"
#include "hal/cpu/guarded_memory.h"
#include "hal/disk_file.h"

namespace snug {

DiskRates measure_disk(const std::string& directory, int64_t bytes) {
  const int64_t part = std::min(bytes, int64_t{64} << 20);  // more than are under way at once
  DiskFile file(directory, bytes);
  const GuardedMemory memory(part, DiskFile::kGrain);
  const std::span<std::byte> buffer(memory.data(), static_cast<size_t>(part));
  // Some disks and file systems store zeros for nothing.
  for (size_t i = 0; i < buffer.size(); i += sizeof(uint64_t)) {
    const uint64_t noise = mix(i);
    std::memcpy(buffer.data() + i, &noise, std::min(sizeof noise, buffer.size() - i));
  }
  for (int64_t at = 0; at < bytes; at += part)
    file.write(at, buffer.first(static_cast<size_t>(std::min(part, bytes - at))));
  for (int64_t at = 0; at < bytes; at += part)
    file.read(at, buffer.first(static_cast<size_t>(std::min(part, bytes - at))));
  return {.read = file.reads().bytes_per_s(), .write = file.writes().bytes_per_s()};
}

}  // namespace snug

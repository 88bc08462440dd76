#include "hal/cpu/cpu_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "hal/cpu/guarded_memory.h"
#include "hal/cpu/memory_limit.h"
#include "hal/disk_file.h"
#include "hal/host_reading.h"

#if __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(data, bytes) ((void)(data), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(data, bytes) ((void)(data), (void)(bytes))
#endif

namespace snug {
namespace {

class CpuDevice final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::cpu; }
  std::string_view name() const override { return "cpu"; }
  std::unique_ptr<Memory> allocate(int64_t bytes) override { return guarded(bytes, 256); }
  // Staging for direct I/O, too.
  std::unique_ptr<Memory> allocate_host(int64_t bytes) override {
    return guarded(bytes, DiskFile::kGrain);
  }
  static std::unique_ptr<Memory> guarded(int64_t bytes, int64_t alignment) {
    const int64_t available = available_memory_bytes();
    if (bytes > available) {
      throw does_not_fit(
          "an arena of {} ({} bytes) does not fit: this machine has {} of memory available",
          format_bytes(bytes), format_exact(bytes), format_bytes(available))
          .hint(fmt::format("--budget {}MiB has the search make it fit, where it can; or a smaller "
                            "--batch, --seq "
                            "or model; `snug plan` shows where the bytes go",
                            available >> 20));
    }
    return std::make_unique<GuardedMemory>(bytes, alignment);
  }
  void upload(std::byte* to, std::span<const std::byte> from) override {
    std::memcpy(to, from.data(), from.size());
  }
  void download(std::span<std::byte> to, const std::byte* from) override {
    std::memcpy(to.data(), from, to.size());
  }
  std::unique_ptr<Reading> read_later(std::span<const Piece> pieces) override {
    return std::make_unique<HostReading>(pieces);
  }
  void fill(std::span<std::byte> bytes, uint8_t value) override {
    std::memset(bytes.data(), value, bytes.size());
  }
};

// A line "Name:   123 kB" of a /proc file, in bytes; 0 when there is none.
int64_t proc_bytes(const char* file, std::string_view name) {
  for (const std::string& line : split(read_file(file), '\n')) {
    if (line.starts_with(name)) return std::stoll(line.substr(name.size() + 1)) * 1024;
  }
  return 0;
}

}  // namespace

std::unique_ptr<Device> cpu_device() { return std::make_unique<CpuDevice>(); }

int64_t resident_anonymous_bytes() { return proc_bytes("/proc/self/status", "RssAnon"); }
int64_t total_memory_bytes() { return proc_bytes("/proc/meminfo", "MemTotal"); }
int64_t available_memory_bytes() {
  const int64_t available = proc_bytes("/proc/meminfo", "MemAvailable");
  return std::min(available, memory_limit_left().value_or(available));
}

bool system_grants(int64_t bytes) {
  void* at = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return false;
  munmap(at, static_cast<size_t>(bytes));
  return true;
}

void forbid_access(const std::byte* data, int64_t bytes) {
  ASAN_POISON_MEMORY_REGION(data, static_cast<size_t>(bytes));
}
void allow_access(const std::byte* data, int64_t bytes) {
  ASAN_UNPOISON_MEMORY_REGION(data, static_cast<size_t>(bytes));
}

}  // namespace snug

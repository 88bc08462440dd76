#include "hal/cpu/guarded_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "hal/cpu/cpu_device.h"

namespace snug {
namespace {

// As the top byte of a float this is about -1e36: nothing that training writes.
constexpr uint8_t kPattern = 0xFB;
constexpr size_t kPart = size_t{64} << 20;  // bytes that are worth a thread; whole huge pages
constexpr size_t kMostThreads = 16;

std::atomic<size_t> allowed_threads{kMostThreads};

}  // namespace

void fill_bytes(std::span<std::byte> bytes, uint8_t value) {
  const size_t parts = (bytes.size() + kPart - 1) / kPart;
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t part = next++; part < parts; part = next++) {
      const size_t first = part * kPart;
      std::memset(bytes.data() + first, value, std::min(kPart, bytes.size() - first));
    }
  };
  const size_t cores = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::jthread> helpers;
  try {
    for (size_t t = 1; t < std::min({parts, cores, allowed_threads.load()}); ++t)
      helpers.emplace_back(work);
  } catch (const std::system_error&) {  // no more threads: those that there are do it
  }
  work();
}

void limit_fill_threads(int64_t threads) {
  allowed_threads = std::clamp(static_cast<size_t>(threads), size_t{1}, kMostThreads);
}

GuardedMemory::GuardedMemory(int64_t bytes, int64_t alignment) : bytes_(bytes) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  usable_ = round_up(std::max<int64_t>(bytes, 1), page);
  mapped_ = usable_ + page;
  void* at = mmap(nullptr, static_cast<size_t>(mapped_), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    throw does_not_fit("the system refuses an arena of {} ({} bytes): {}", format_bytes(bytes),
                       format_exact(bytes), std::strerror(errno));
  }
  start_ = static_cast<std::byte*>(at);
  if (mprotect(start_ + usable_, static_cast<size_t>(page), PROT_NONE) != 0)
    throw internal_error("mprotect: {}", std::strerror(errno));
#ifdef MADV_HUGEPAGE
  madvise(start_, static_cast<size_t>(usable_),
          MADV_HUGEPAGE);  // advice: may fail, nothing depends on it
#endif
  data_ = start_ + (usable_ - bytes) / alignment * alignment;
  fill_bytes(pages(), kPattern);
}

GuardedMemory::~GuardedMemory() {
  allow_access(start_, usable_);
  munmap(start_, static_cast<size_t>(mapped_));
}

int64_t GuardedMemory::high_water_mark() const {
  for (const std::byte* slack = data_ + bytes_; slack != start_ + usable_; ++slack) {
    if (*slack != std::byte{kPattern})
      throw internal_error("byte {} past the arena's end was overwritten", slack - data_ - bytes_);
  }
  return scan();
}

[[gnu::no_sanitize_address]] int64_t GuardedMemory::scan() const {
  int64_t end = bytes_;
  while (end > 0 && data_[end - 1] == std::byte{kPattern}) --end;
  return end;
}

}  // namespace snug

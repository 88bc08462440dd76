// Host memory from the operating system that is there, and that tells what was written: every page
// is touched before the constructor returns.
//
//   GuardedMemory arena(plan_bytes);
//   arena.high_water_mark();          // 0: nothing was written yet
#pragma once

#include <span>

#include "hal/device.h"

namespace snug {

// Sets every byte, by several threads where they are many: 100 GB of fresh pages take one thread
// half a minute.
void fill_bytes(std::span<std::byte> bytes, uint8_t value);
// By at most so many from now on; before, one for each core.
void limit_fill_threads(int64_t threads);

// [ ... | arena, aligned | slack < alignment | guard page ]: the arena ends as close before the
// guard page as its alignment permits; slack and arena are filled with the pattern, which also
// faults every page in.
class GuardedMemory final : public Memory {
 public:
  // Throws does_not_fit where the system does not map so many bytes. The alignment is a power of
  // two, and at most a page.
  explicit GuardedMemory(int64_t bytes, int64_t alignment = 256);
  ~GuardedMemory() override;
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  std::byte* data() const override { return data_; }
  int64_t bytes() const override { return bytes_; }
  int64_t high_water_mark() const override;
  // The whole pages around the arena, without the guard page.
  std::span<std::byte> pages() const { return {start_, static_cast<size_t>(usable_)}; }

 private:
  int64_t scan() const;

  int64_t bytes_;
  int64_t usable_ = 0;
  int64_t mapped_ = 0;
  std::byte* start_ = nullptr;
  std::byte* data_ = nullptr;
};

}  // namespace snug

// A buffer between canaries, so that a kernel that writes outside of it is found.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace snug {

constexpr size_t kGuard = 256;
constexpr std::byte kCanary{0xA5};
constexpr std::byte kUnwritten{0xFF};  // NaN as a float, -1 as an integer

class Guarded {
 public:
  explicit Guarded(int64_t bytes)
      : size_(static_cast<size_t>(bytes)), all_(size_ + 3 * kGuard, kCanary) {
    start_ = kGuard + (kGuard - reinterpret_cast<uintptr_t>(all_.data()) % kGuard) % kGuard;
    std::fill_n(data(), size_, kUnwritten);
  }
  std::byte* data() { return all_.data() + start_; }
  const std::byte* data() const { return all_.data() + start_; }
  size_t size() const { return size_; }
  std::span<std::byte> span() { return {data(), size_}; }
  bool intact() const {
    auto is_canary = [](std::byte b) { return b == kCanary; };
    return std::all_of(all_.begin(), all_.begin() + static_cast<std::ptrdiff_t>(start_),
                       is_canary) &&
           std::all_of(all_.begin() + static_cast<std::ptrdiff_t>(start_ + size_), all_.end(),
                       is_canary);
  }
  bool operator==(const Guarded& o) const {
    return size_ == o.size_ && std::memcmp(data(), o.data(), size_) == 0;
  }

 private:
  size_t size_;
  std::vector<std::byte> all_;
  size_t start_ = 0;
};

}  // namespace snug

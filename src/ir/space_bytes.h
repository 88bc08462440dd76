// One number of bytes for each space: what a plan needs, and what it may take.
//
//   const SpaceBytes need = arenas_of(plan.module);   need[Space::host];
//   need.fits_in(device_limit(24 << 30));             // host and disk are not limited
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>

#include "ir/program.h"

namespace snug {

inline constexpr std::array kAllSpaces{Space::device, Space::host, Space::disk};
inline constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

struct Limits;

struct SpaceBytes {
  std::array<int64_t, kSpaces> bytes{};

  constexpr int64_t& operator[](Space space) { return bytes[static_cast<size_t>(space)]; }
  constexpr int64_t operator[](Space space) const { return bytes[static_cast<size_t>(space)]; }

  // In every space.
  constexpr bool fits_in(const Limits& limits) const;
  constexpr bool outside_device() const {
    return (*this)[Space::host] > 0 || (*this)[Space::disk] > 0;
  }

  friend constexpr SpaceBytes operator+(SpaceBytes a, const SpaceBytes& b) {
    for (const Space s : kAllSpaces) a[s] += b[s];
    return a;
  }
  friend constexpr SpaceBytes operator-(SpaceBytes a, const SpaceBytes& b) {
    for (const Space s : kAllSpaces) a[s] -= b[s];
    return a;
  }
  friend constexpr SpaceBytes max(SpaceBytes a, const SpaceBytes& b) {
    for (const Space s : kAllSpaces) a[s] = std::max(a[s], b[s]);
    return a;
  }
  friend constexpr SpaceBytes min(SpaceBytes a, const SpaceBytes& b) {
    for (const Space s : kAllSpaces) a[s] = std::min(a[s], b[s]);
    return a;
  }
  friend bool operator==(const SpaceBytes&, const SpaceBytes&) = default;
};

// A GPU keeps 8 bytes of its own memory for every 4 KiB of host memory that it can reach.
constexpr int64_t page_table_bytes(int64_t pinned) { return pinned / 4096 * 8; }

// What arenas may take.
struct Limits : SpaceBytes {
  bool host_is_pinned = false;  // its page tables take device memory outside the arena

  // NOLINTNEXTLINE(google-explicit-constructor): bytes are limits where nothing is pinned
  constexpr Limits(const SpaceBytes& most, bool pinned = false)
      : SpaceBytes(most), host_is_pinned(pinned) {}

  // Below zero: too much.
  constexpr SpaceBytes left_by(const SpaceBytes& arenas) const {
    SpaceBytes left;
    for (const Space s : kAllSpaces) left[s] = (*this)[s] - arenas[s];
    if (host_is_pinned) left[Space::device] -= page_table_bytes(arenas[Space::host]);
    return left;
  }
  friend bool operator==(const Limits&, const Limits&) = default;
};

constexpr bool SpaceBytes::fits_in(const Limits& limits) const {
  return std::ranges::all_of(limits.left_by(*this).bytes, [](int64_t left) { return left >= 0; });
}

// So many bytes on the device, and none in other spaces.
constexpr SpaceBytes on_device(int64_t bytes) { return {{bytes, 0, 0}}; }
// A limit for the device alone.
constexpr Limits device_limit(int64_t bytes) { return SpaceBytes{{bytes, kUnlimited, kUnlimited}}; }

// What a budget, where there is one, leaves for an arena when other things take so many bytes.
constexpr int64_t left_of(std::optional<int64_t> budget, int64_t taken) {
  return budget ? std::max<int64_t>(0, *budget - taken) : kUnlimited;
}

inline constexpr Limits kNoLimits = device_limit(kUnlimited);

// Of a placed module.
inline SpaceBytes arenas_of(const Module& module) {
  return {{module.arena_bytes[0], module.arena_bytes[1], module.arena_bytes[2]}};
}

}  // namespace snug

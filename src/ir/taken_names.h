// Names that are taken, each with the number that the next one like it may end in.
//
//   TakenNames taken;
//   taken.unique("h.0.act");   // "h.0.act"
//   taken.unique("h.0.act");   // "h.0.act.2"
//
// Only hashes are kept, so that a pass over a large module need not copy its names: two names of
// one hash cost the second a number that it did not need, and nothing else.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace snug {

class TakenNames {
 public:
  void add(std::string_view name) { place_of(name); }

  // For so many names: not to grow again and again on the way there.
  void reserve(size_t names) {
    if (2 * names > hashes_.size()) grow_to(std::bit_ceil(2 * names));
  }

  std::string unique(std::string name) {
    const auto [place, is_new] = place_of(name);
    if (is_new) return name;
    for (int n = next_[place];; ++n) {
      std::string candidate = fmt::format("{}.{}", name, n);
      if (!place_of(candidate).is_new) continue;
      next_[place_of(name).slot] = n + 1;
      return candidate;
    }
  }

 private:
  struct Place {
    size_t slot;
    bool is_new;
  };

  Place place_of(std::string_view name) {
    if (2 * (taken_ + 1) > hashes_.size()) grow_to(std::max(kFirst, 2 * hashes_.size()));
    const uint64_t hash = std::hash<std::string_view>{}(name) | 1;
    const size_t slot = slot_of(hash);
    const bool is_new = hashes_[slot] == 0;
    if (is_new) {
      hashes_[slot] = hash;
      ++taken_;
    }
    return {slot, is_new};
  }
  // Its own, or the free one where it belongs. Low bits are the same in all hashes.
  size_t slot_of(uint64_t hash) const {
    const size_t mask = hashes_.size() - 1;
    size_t slot = (hash >> 1) & mask;
    while (hashes_[slot] != 0 && hashes_[slot] != hash) slot = (slot + 1) & mask;
    return slot;
  }
  static constexpr size_t kFirst = 64;
  void grow_to(size_t slots) {
    constexpr int kNext = 2;
    std::vector<uint64_t> hashes(slots);
    std::vector<int> next(hashes.size(), kNext);
    hashes.swap(hashes_);
    next.swap(next_);
    for (size_t i = 0; i < hashes.size() && taken_ > 0; ++i) {
      if (hashes[i] == 0) continue;
      const size_t slot = slot_of(hashes[i]);
      hashes_[slot] = hashes[i];
      next_[slot] = next[i];
    }
  }

  std::vector<uint64_t> hashes_;  // by slot, a power of two of them; 0: it is free
  std::vector<int> next_;         // by slot: the number that the next one like it may end in
  size_t taken_ = 0;
};

}  // namespace snug

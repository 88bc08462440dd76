// Names that are taken, each with the number that the next one like it may end in.
//
//   TakenNames taken;
//   taken.unique("h.0.act");   // "h.0.act"
//   taken.unique("h.0.act");   // "h.0.act.2"
//
// Only hashes are kept, so that a pass over a large module need not copy its names: two names of
// one hash cost the second a number that it did not need, and nothing else.
#pragma once

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

  std::string unique(std::string name) {
    const auto [place, is_new] = place_of(name);
    if (is_new) return name;
    for (int n = slots_[place].next;; ++n) {
      std::string candidate = fmt::format("{}.{}", name, n);
      if (!place_of(candidate).is_new) continue;
      slots_[place_of(name).slot].next = n + 1;
      return candidate;
    }
  }

 private:
  struct Slot {
    uint64_t hash = 0;  // 0: it is free
    int next = 2;
  };
  struct Place {
    size_t slot;
    bool is_new;
  };

  Place place_of(std::string_view name) {
    if (2 * (taken_ + 1) > slots_.size()) grow();
    const uint64_t hash = std::hash<std::string_view>{}(name) | 1;
    const size_t slot = slot_of(hash);
    const bool is_new = slots_[slot].hash == 0;
    if (is_new) {
      slots_[slot].hash = hash;
      ++taken_;
    }
    return {slot, is_new};
  }
  // Its own, or the free one where it belongs. Low bits are the same in all hashes.
  size_t slot_of(uint64_t hash) const {
    const size_t mask = slots_.size() - 1;
    size_t slot = (hash >> 1) & mask;
    while (slots_[slot].hash != 0 && slots_[slot].hash != hash) slot = (slot + 1) & mask;
    return slot;
  }
  void grow() {
    constexpr size_t kFirst = 64;
    std::vector<Slot> before(slots_.empty() ? kFirst : 2 * slots_.size());
    before.swap(slots_);
    for (const Slot& slot : before) {
      if (slot.hash != 0) slots_[slot_of(slot.hash)] = slot;
    }
  }

  std::vector<Slot> slots_;  // a power of two
  size_t taken_ = 0;
};

}  // namespace snug

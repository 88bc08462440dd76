// What is known of some of a module's values, by value: a map whose look-up is an index.
//
//   ByValue<int32_t> last;   last[id] = at;   if (const int32_t* at = last.find(id)) ...
//
// An entry stays where it is.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "ir/value.h"

namespace snug {

template <typename T>
class ByValue {
 public:
  T& operator[](ValueId id) {
    const auto at = static_cast<size_t>(id.index);
    if (at >= slots_.size()) slots_.resize(std::max(at + 1, 2 * slots_.size()), kNone);
    if (slots_[at] == kNone) {
      slots_[at] = static_cast<int32_t>(entries_.size());
      entries_.emplace_back(id, T{});
    }
    return entries_[static_cast<size_t>(slots_[at])].second;
  }
  // None where nothing is known, or the id is no value's.
  T* find(ValueId id) {
    const auto at = static_cast<size_t>(id.index);  // of none: larger than any
    if (at >= slots_.size() || slots_[at] == kNone) return nullptr;
    return &entries_[static_cast<size_t>(slots_[at])].second;
  }
  const T* find(ValueId id) const { return const_cast<ByValue*>(this)->find(id); }
  bool contains(ValueId id) const { return find(id) != nullptr; }

  // Those that are known, by rising value.
  std::vector<ValueId> ids() const {
    std::vector<ValueId> all;
    for (const auto& [id, entry] : entries_) {
      if (contains(id)) all.push_back(id);
    }
    std::ranges::sort(all);
    return all;
  }
  void erase(ValueId id) {
    if (contains(id)) slots_[static_cast<size_t>(id.index)] = kNone;
  }

 private:
  static constexpr int32_t kNone = -1;
  std::vector<int32_t> slots_;  // by value: its entry
  std::deque<std::pair<ValueId, T>> entries_;
};

}  // namespace snug

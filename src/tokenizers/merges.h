// Byte-pair merging: of all neighbours the pair that the vocabulary merged first is joined, the
// leftmost of several, until no pair is known.
//
//   Merges merges(2);
//   merges.add(l, o, lo);   // rank 0
//   merges.add(lo, w, low);
//   merges.apply(ids);      // {l, o, w} -> {low}
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace snug {

class Merges {
 public:
  explicit Merges(size_t count);  // that will be added at most

  void add(int32_t left, int32_t right, int32_t joined);
  // ids from `first` on are joined in place. Long words take n log n.
  void apply(std::vector<int32_t>& ids, size_t first) const;

 private:
  struct Entry {
    uint64_t pair = kFree;
    uint32_t rank = 0;
    int32_t joined = 0;
  };
  static constexpr uint64_t kFree = ~uint64_t{0};
  static constexpr uint32_t kNoRank = ~uint32_t{0};

  static uint64_t pair_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t place_of(uint64_t pair) const {
    return static_cast<size_t>((pair * 0x9e3779b97f4a7c15U) >> shift_);
  }
  const Entry& find(int32_t left, int32_t right) const;
  uint32_t rank_of(int32_t left, int32_t right) const;
  void apply_to_short(std::vector<int32_t>& ids, size_t first) const;
  void apply_to_long(std::vector<int32_t>& ids, size_t first) const;

  std::vector<Entry> table_;  // a power of two, at most half full
  int shift_ = 0;
  uint32_t next_rank_ = 0;
};

}  // namespace snug

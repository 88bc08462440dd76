// A fact for every byte of a storage, kept per segment: segments split where ranges begin and end.
//
//   Segments<int> writer(-1);
//   writer.over(0, 256, [](int& w) { w = 7; });   // bytes [0, 256) were written by op 7
//   writer.over(128, 512, [](int& w) { ... });    // sees 7 for [128, 256),
//                                                 // then -1 for [256, 512)
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace snug {

template <typename Fact>
class Segments {
 public:
  explicit Segments(Fact at_first = {}) : segments_{{0, std::move(at_first)}} {}

  // Calls touch(fact) for each segment of [begin, end), in order; begin is not negative.
  template <typename Touch>
  void over(int64_t begin, int64_t end, Touch&& touch) {
    if (begin >= end) return;
    const size_t first = split(begin);
    split(end);
    for (size_t i = first; i < segments_.size() && segments_[i].begin < end; ++i)
      touch(segments_[i].fact);
  }

 private:
  struct Segment {
    int64_t begin;  // it ends where the next one begins
    Fact fact;
  };

  // Makes a segment begin at `at` and returns its index.
  size_t split(int64_t at) {
    const auto after = std::upper_bound(segments_.begin(), segments_.end(), at,
                                        [](int64_t b, const Segment& s) { return b < s.begin; });
    const auto i = static_cast<size_t>(after - segments_.begin());
    if (segments_[i - 1].begin == at) return i - 1;
    segments_.insert(after, Segment{at, Fact(segments_[i - 1].fact)});
    return i;
  }

  std::vector<Segment> segments_;
};

}  // namespace snug

// A fact for every byte of a storage, kept per segment: segments split where ranges begin and end.
//
//   Segments<int> writer(512, -1);                // of 512 bytes
//   writer.over(0, 256, [](int& w) { w = 7; });   // bytes [0, 256) were written by op 7
//   writer.over(128, 512, [](int& w) { ... });    // sees 7 for [128, 256),
//                                                 // then -1 for [256, 512)
//
// A storage that is only ever touched as a whole allocates nothing.
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
  Segments(int64_t bytes, Fact at_first) : bytes_(bytes), first_(std::move(at_first)) {}

  // Calls touch(fact) for each segment of [begin, end), in order; begin is not negative, and
  // bytes past the storage's end do not count.
  template <typename Touch>
  void over(int64_t begin, int64_t end, Touch&& touch) {
    end = std::min(end, bytes_);
    if (begin >= end) return;
    const size_t from = split(begin);
    const size_t to = split(end);
    if (from == 0) touch(first_);
    for (size_t i = std::max<size_t>(from, 1); i < to; ++i) touch(later_[i - 1].fact);
  }

 private:
  struct Segment {
    int64_t begin;  // it ends where the next one begins
    Fact fact;
  };

  // Makes a segment begin at `at` and returns its index; the first begins at 0, and none at the end.
  size_t split(int64_t at) {
    if (at == 0) return 0;
    if (at == bytes_) return later_.size() + 1;
    const auto after = std::upper_bound(later_.begin(), later_.end(), at,
                                        [](int64_t b, const Segment& s) { return b < s.begin; });
    const auto i = static_cast<size_t>(after - later_.begin());
    if (i > 0 && later_[i - 1].begin == at) return i;
    later_.insert(after, Segment{at, Fact(i > 0 ? later_[i - 1].fact : first_)});
    return i + 1;
  }

  int64_t bytes_;
  Fact first_;
  std::vector<Segment> later_;
};

}  // namespace snug

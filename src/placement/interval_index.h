// Which bytes are taken when: rectangles of time x bytes, and the lowest free place for the next.
//
//   IntervalIndex taken(instants);   taken.occupy(0, 5, {0, 256});   taken.lowest_fit(3, 9, 256) ==
//   256
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace snug {

struct ByteRange {
  int64_t begin = 0;
  int64_t end = 0;  // one past the last byte
};

// A segment tree over time. Each node keeps byte ranges, sorted and merged where they touch: a
// dense packing is one range however many values it holds, which keeps a query near O(log n).
class IntervalIndex {
 public:
  explicit IntervalIndex(int32_t instants);

  // The lowest offset at which `bytes` are free during every instant of [first, last].
  int64_t lowest_fit(int32_t first, int32_t last, int64_t bytes);
  void occupy(int32_t first, int32_t last, ByteRange range);
  void clear();

  // Byte ranges looked at so far: the measure of effort, the same on every machine.
  int64_t visits() const { return visits_; }

 private:
  using Ranges = std::vector<ByteRange>;
  struct Node {
    Ranges covering;  // taken during all of this node's time, by values filed exactly here
    Ranges touching;  // taken during some of it: everything filed here or below
  };
  struct Cursor {
    const Ranges* ranges;
    size_t at;
  };

  // Calls f(node) for the few nodes that together make [first, last].
  template <typename F>
  void for_each_part(int32_t first, int32_t last, F f);
  void gather(size_t node);  // what may be in the way during this node's time
  void insert(Ranges& ranges, ByteRange range);

  size_t leaves_ = 1;
  std::vector<Node> nodes_;  // node n has children 2n and 2n+1; the root is 1
  std::vector<Cursor> cursors_;
  std::vector<uint32_t> walked_;  // per node: the last walk that came up through it
  uint32_t walk_ = 0;
  int64_t visits_ = 0;
};

}  // namespace snug

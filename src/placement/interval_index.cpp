#include "placement/interval_index.h"

#include <algorithm>
#include <bit>

namespace snug {

IntervalIndex::IntervalIndex(int32_t instants)
    : leaves_(std::bit_ceil(static_cast<size_t>(std::max(instants, 1)))),
      nodes_(2 * leaves_),
      walked_(2 * leaves_, 0) {}

void IntervalIndex::clear() {
  for (Node& node : nodes_) {
    node.covering.clear();
    node.touching.clear();
  }
}

template <typename F>
void IntervalIndex::for_each_part(int32_t first, int32_t last, F f) {
  size_t low = leaves_ + static_cast<size_t>(first);
  size_t high = leaves_ + static_cast<size_t>(last) + 1;
  for (; low < high; low /= 2, high /= 2) {
    if (low % 2 == 1) f(low++);
    if (high % 2 == 1) f(--high);
  }
}

void IntervalIndex::insert(Ranges& ranges, ByteRange range) {
  auto from = std::lower_bound(ranges.begin(), ranges.end(), range.begin,
                               [](const ByteRange& r, int64_t begin) { return r.end < begin; });
  auto to = from;
  for (; to != ranges.end() && to->begin <= range.end; ++to) {
    range.begin = std::min(range.begin, to->begin);
    range.end = std::max(range.end, to->end);
  }
  visits_ += 1 + (to - from) + (ranges.end() - to) / 8;  // moving the later ones is cheaper
  if (from == to) {
    ranges.insert(from, range);
  } else {
    *from = range;
    ranges.erase(from + 1, to);
  }
}

void IntervalIndex::occupy(int32_t first, int32_t last, ByteRange range) {
  if (range.begin == range.end) return;
  ++walk_;
  for_each_part(first, last, [&](size_t node) {
    insert(nodes_[node].covering, range);
    for (; node > 0 && walked_[node] != walk_; node /= 2) {
      walked_[node] = walk_;
      insert(nodes_[node].touching, range);
    }
  });
}

void IntervalIndex::gather(size_t node) {
  auto add = [&](const Ranges& ranges) {
    if (!ranges.empty()) cursors_.push_back({&ranges, 0});
  };
  add(nodes_[node].touching);
  for (node /= 2; node > 0 && walked_[node] != walk_; node /= 2) {
    walked_[node] = walk_;
    add(nodes_[node].covering);
  }
}

int64_t IntervalIndex::lowest_fit(int32_t first, int32_t last, int64_t bytes) {
  ++walk_;
  cursors_.clear();
  for_each_part(first, last, [&](size_t node) { gather(node); });
  int64_t offset = 0;
  for (bool pushed = true; pushed;) {
    pushed = false;
    for (Cursor& c : cursors_) {
      const Ranges& ranges = *c.ranges;
      while (c.at < ranges.size() && ranges[c.at].end <= offset) ++c.at, ++visits_;
      if (c.at == ranges.size() || ranges[c.at].begin >= offset + bytes) continue;
      offset = ranges[c.at].end;
      pushed = true;
    }
    visits_ += static_cast<int64_t>(cursors_.size());
  }
  return offset;
}

}  // namespace snug

// A rank's part of a parameter, and where its elements are in the whole.
//
//   for_runs(param.cut, 0, elements, [&](const WholeRun& run) { ... });   // in this rank's order
#pragma once

#include <algorithm>
#include <cstdint>

#include "ir/program.h"

namespace snug {

// Neighbours here and in the whole.
struct WholeRun {
  int64_t first = 0, whole_first = 0, elements = 0;
};

// Of this rank's elements [begin, end), those that are of the whole: what is not is padding. Boxes of
// several rows have as many, next to each other.
template <typename Fn>
void for_runs(const TensorCut& cut, int64_t begin, int64_t end, const Fn& fn) {
  if (!cut.on()) return fn(WholeRun{begin, begin, end - begin});
  if (cut.boxes.empty()) return;
  const Box& front = cut.boxes.front();
  const int64_t first_row = front.rows > 1 ? begin / front.stride : 0;
  for (int64_t row = first_row; row < front.rows; ++row) {
    if (front.rows > 1 && row * front.stride >= end) return;
    for (const Box& box : cut.boxes) {
      const int64_t at = box.first + row * box.stride;
      const int64_t from = std::max(begin, at), to = std::min(end, at + box.width);
      if (from < to)
        fn(WholeRun{from, box.whole_first + row * box.whole_stride + from - at, to - from});
    }
  }
}

// The same of those that are in [from, to) of the whole, box by box.
template <typename Fn>
void for_runs_in(const TensorCut& cut, int64_t begin, int64_t end, int64_t from, int64_t to,
                 const Fn& fn) {
  for (const Box& box : cut.boxes) {
    const auto row_of = [&](int64_t whole) {
      const int64_t past = whole - box.whole_first;
      return box.rows == 1 || past <= 0 ? 0 : past / box.whole_stride;
    };
    for (int64_t row = row_of(from); row < std::min(box.rows, row_of(to) + 1); ++row) {
      const int64_t at = box.first + row * box.stride;
      const int64_t whole = box.whole_first + row * box.whole_stride;
      const int64_t skipped = std::max({int64_t{0}, begin - at, from - whole});
      const int64_t ends = std::min({box.width, end - at, to - whole});
      if (skipped < ends) fn(WholeRun{at + skipped, whole + skipped, ends - skipped});
    }
  }
}

// The same parameter on the rank of that part, from the first one's. Only words, which come last, do not
// divide.
inline TensorCut cut_of_part(TensorCut first, int64_t part) {
  for (Box& box : first.boxes) {
    const bool repeated = first.repeats > 1 && box.first >= first.repeated_from;
    box.whole_first += part / (repeated ? first.repeats : 1) * box.width;
    if (box.rows == 1)
      box.width = std::clamp<int64_t>(first.whole.elements() - box.whole_first, 0, box.width);
  }
  return first;
}

// Of a parameter, and of what belongs to it and has an element for each of its own: a gradient, a
// master, an optimizer state. Other values are not cut.
inline const TensorCut& tensor_cut_of(const Module& module, const Value& value) {
  static const TensorCut kNone;
  const Value& parameter = value.parameter.valid() ? module[value.parameter] : value;
  if (!parameter.param || value.whole().elements() != parameter.whole().elements()) return kNone;
  return parameter.param->cut;
}

// The shape of it on all ranks.
inline const Shape& logical_shape(const Module& module, const Value& value) {
  const TensorCut& cut = tensor_cut_of(module, value);
  return cut.on() ? cut.whole : value.whole();
}

}  // namespace snug

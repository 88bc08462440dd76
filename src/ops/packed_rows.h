// Rows that hold several samples, one after another. The input `starts`, i32[B,T], says of every
// token at which position of its row its sample begins. Starts do not decrease along a row, and no
// sample begins after its own tokens: the caller has checked that.
//
//   starts of a row of samples of 3, 1 and 4 tokens:  0 0 0 3 4 4 4 4
//   positions of its tokens:                          0 1 2 0 0 1 2 3
#pragma once

#include <utility>
#include <vector>

#include "ops/infer.h"

namespace snug::ops {

// Of token `row` of [B*T] in its sample; without starts, in its row.
constexpr int64_t position_in_sample(const int32_t* starts, int64_t row, int64_t T) {
  return row % T - (starts != nullptr ? starts[row] : 0);
}
// The same for a reference.
inline int64_t position_in_sample(const RefArgs& a, size_t port, int64_t row, int64_t T) {
  return row % T - (a.has(port) ? static_cast<int64_t>(a.in(port).v[static_cast<size_t>(row)]) : 0);
}

inline void require_starts(const OpView& op, size_t port, int64_t B, int64_t T) {
  require_type(op, port, {Dtype::i32, {B, T}});
}

// An input for samples of an op: `lengths` again and again, in each row from another one on.
inline SampleInput packed_starts(int64_t B, int64_t T, std::vector<int64_t> lengths) {
  Fill fill;
  fill.compute = [T, lengths = std::move(lengths)](RefTensor& self, std::span<const RefTensor>) {
    const auto rows = static_cast<int64_t>(self.v.size()) / T;
    for (int64_t b = 0; b < rows; ++b) {
      auto next = static_cast<size_t>(b);
      int64_t start = 0, end = 0;
      for (int64_t t = 0; t < T; ++t) {
        if (t == end) {
          start = t;
          end = t + lengths[next++ % lengths.size()];
        }
        self.v[static_cast<size_t>(b * T + t)] = static_cast<double>(start);
      }
    }
  };
  return {{Dtype::i32, {B, T}}, std::move(fill)};
}

}  // namespace snug::ops

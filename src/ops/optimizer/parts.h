// Adam-mini's parts of a parameter: its outputs (rows, or columns where it is stored [in, out]) in
// groups of neighbours, written as "12x64,768x1": 12 parts of 64 outputs, then 768 of one.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

#include "ir/op_def.h"

namespace snug::ops {

struct Outputs {
  int64_t count;  // of outputs
  int64_t each;   // elements of one
  bool columns;   // an output is a column of [each, count], else a row of [count, each]

  int64_t of_element(int64_t i) const { return columns ? i % count : i / each; }
};

inline Outputs outputs_of(const Shape& shape, bool in_out) {
  const int64_t n = shape.elements();
  const int64_t count = shape.rank() == 0 ? 1 : in_out ? shape.back() : shape[0];
  return {count, count == 0 ? 0 : n / count, in_out};
}

// Calls fn(parts, outputs of each) for every group; false where the text is not such a list.
template <typename Fn>
bool for_groups(std::string_view text, const Fn& fn) {
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&]() -> std::optional<int64_t> {
    int64_t value = 0;
    const auto [rest, error] = std::from_chars(at, end, value);
    if (error != std::errc{} || value < 1) return {};
    at = rest;
    return value;
  };
  for (;;) {
    const auto parts = number();
    if (!parts || at == end || *at++ != 'x') return false;
    const auto outputs = number();
    if (!outputs) return false;
    fn(*parts, *outputs);
    if (at == end) return true;
    if (*at++ != ',') return false;
  }
}

}  // namespace snug::ops

// Layers as options write them: "7", "0-11", "0-11+15".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/number.h"
#include "base/text.h"

namespace snug {

struct LayerRange {
  int32_t first = 0, last = 0;
  friend bool operator==(const LayerRange&, const LayerRange&) = default;
};

// None where it is something else.
inline std::optional<LayerRange> read_layer_range(std::string_view text) {
  const auto ends = split(text, '-');
  LayerRange range;
  if (ends.size() > 2 || !read_number(ends.front(), range.first) ||
      !read_number(ends.back(), range.last) || range.first < 0 || range.last < range.first)
    return std::nullopt;
  return range;
}

// Several are rising and apart: the same with neighbours as one.
std::vector<LayerRange> tidy(std::vector<LayerRange> ranges);
bool holds(const std::vector<LayerRange>& ranges, int32_t layer);
// "0-11+15"
std::string text(const std::vector<LayerRange>& ranges);
// Reads it back, tidied. Throws `wrong(why)` where it is something else.
template <typename Wrong>
std::vector<LayerRange> read_layer_ranges(std::string_view text, const Wrong& wrong) {
  std::vector<LayerRange> out;
  for (const std::string& part : split(text, '+')) {
    const auto range = read_layer_range(part);
    if (!range) throw wrong("'" + part + "' is not a layer or a range of layers");
    out.push_back(*range);
  }
  return tidy(std::move(out));
}

}  // namespace snug

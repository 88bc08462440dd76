// A layer or a range of layers, as options write it: "7", "0-11".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

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

}  // namespace snug

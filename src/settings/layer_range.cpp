#include "settings/layer_range.h"

#include <fmt/format.h>

#include <algorithm>

namespace snug {

std::vector<LayerRange> tidy(std::vector<LayerRange> ranges) {
  std::ranges::sort(ranges, {}, &LayerRange::first);
  std::vector<LayerRange> out;
  for (const LayerRange& r : ranges) {
    if (!out.empty() && r.first <= out.back().last + 1) {
      out.back().last = std::max(out.back().last, r.last);
    } else {
      out.push_back(r);
    }
  }
  return out;
}

bool holds(const std::vector<LayerRange>& ranges, int32_t layer) {
  return std::ranges::any_of(
      ranges, [&](const LayerRange& r) { return r.first <= layer && layer <= r.last; });
}

std::string text(const std::vector<LayerRange>& ranges) {
  std::vector<std::string> parts;
  for (const LayerRange& r : ranges)
    parts.push_back(r.first == r.last ? fmt::format("{}", r.first)
                                      : fmt::format("{}-{}", r.first, r.last));
  return join(parts, "+");
}

}  // namespace snug

// What each layer of a plan holds; layers that cost the same are one line, wherever they are.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "base/units.h"
#include "report/plan_report_parts.h"

namespace snug {
namespace {

constexpr size_t kLayerColumns = 14;
constexpr size_t kMostNameColumns = 27;  // with these a row has 98

struct Alike {
  std::string name;
  const LayerBreakdown* costs;
};

// "0..4,6,8..9": layers that follow one another are one range.
std::string ranges(const std::vector<int32_t>& layers) {
  std::vector<std::string> parts;
  for (size_t from = 0; from < layers.size();) {
    size_t to = from + 1;
    while (to < layers.size() && layers[to] == layers[to - 1] + 1) ++to;
    parts.push_back(to == from + 1 ? fmt::format("{}", layers[from])
                                   : fmt::format("{}..{}", layers[from], layers[to - 1]));
    from = to;
  }
  return join(parts, ",");
}

bool evenly_apart(const std::vector<int32_t>& layers) {
  const auto uneven = [&](int32_t a, int32_t b) { return b - a != layers[1] - layers[0]; };
  return layers.size() > 3 && layers[1] - layers[0] > 1 &&
         std::ranges::adjacent_find(layers, uneven) == layers.end();
}

// "no layer", "5", "0..4 each", "0,2..22 each", "0..2,4 each", "17 of 0..35 each"
std::string name_of_layers(const std::vector<int32_t>& layers) {
  if (layers.front() == kNoLayer) return "no layer";
  if (layers.size() == 1) return fmt::format("{}", layers.front());
  if (evenly_apart(layers))
    return fmt::format("{},{}..{} each", layers[0], layers[1], layers.back());
  std::string name = ranges(layers) + " each";
  if (name.size() <= kMostNameColumns) return name;
  return fmt::format("{} of {}..{} each", layers.size(), layers.front(), layers.back());
}

std::vector<Alike> groups(const std::vector<LayerBreakdown>& layers) {
  std::vector<Alike> out;
  std::vector<bool> told(layers.size(), false);
  for (size_t i = 0; i < layers.size(); ++i) {
    if (told[i]) continue;
    std::vector<int32_t> alike;
    for (size_t j = i; j < layers.size(); ++j) {
      const bool same = j == i || (layers[i].layer != kNoLayer && layers[j].same_costs(layers[i]));
      if (told[j] || !same) continue;
      told[j] = true;
      alike.push_back(layers[j].layer);
    }
    out.push_back({name_of_layers(alike), &layers[i]});
  }
  return out;
}

}  // namespace

std::string some_bytes(int64_t bytes) { return bytes == 0 ? "-" : format_bytes(bytes); }

std::string layers_text(const MemoryBreakdown& memory, const Paint& paint) {
  if (memory.layers.empty()) return "";
  const std::vector<Alike> rows = groups(memory.layers);
  size_t columns = kLayerColumns;
  for (const Alike& row : rows) columns = std::max(columns, row.name.size());
  const bool masters = memory.shared[static_cast<size_t>(Category::master)] > 0;
  const std::string_view title = "per layer";
  std::string out =
      fmt::format("\n{}{:>{}} {:>12} {:>12} {:>14} {:>14}\n", paint.title(title), "params",
                  columns + 15 - title.size(), "grads", masters ? "master+opt" : "optimizer",
                  "kept for bwd", "at the peak");
  for (const auto& [name, l] : rows) {
    out += fmt::format("  {:<{}} {:>12} {:>12} {:>12} {:>14} {:>14}\n", name, columns,
                       some_bytes(l->params), some_bytes(l->grads), some_bytes(l->optimizer),
                       some_bytes(l->kept), some_bytes(l->at_peak));
  }
  return out;
}

}  // namespace snug

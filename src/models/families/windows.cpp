#include "models/families/windows.h"

#include <algorithm>
#include <vector>

namespace snug {
namespace {

// Which layers have the window, as layer_types says; none where the file does not.
std::optional<std::vector<bool>> read_layer_types(const JsonFields& f) {
  const OrderedJson* types = f.find("layer_types");
  if (types == nullptr) return std::nullopt;
  if (!types->is_array()) throw f.wrong_type("layer_types", "a list of strings");
  std::vector<bool> sliding;
  for (const OrderedJson& type : *types) {
    if (type != "sliding_attention" && type != "full_attention") {
      throw f.refusal("layer_types", "holds {}, which Snug does not support", type.dump());
    }
    sliding.push_back(type == "sliding_attention");
  }
  return sliding;
}

// The shortest beginning that gives the whole when it is repeated.
std::vector<bool> shortest_period(std::vector<bool> layers) {
  for (size_t n = 1; n < layers.size(); ++n) {
    size_t i = n;
    while (i < layers.size() && layers[i] == layers[i - n]) ++i;
    if (i == layers.size()) {
      layers.resize(n);
      break;
    }
  }
  return layers;
}

}  // namespace

void read_window(const JsonFields& f, HfConfig& c, std::optional<int64_t> otherwise) {
  c.sliding_window = f.nullable_size("sliding_window", otherwise, kMaxPositions);
  read_layer_types(f);  // refuses types that are not supported
}

void read_layer_windows(const JsonFields& f, HfConfig& c, std::optional<int64_t> size,
                        const std::function<bool(int64_t layer)>& usual) {
  const auto named = read_layer_types(f);
  if (named && !size && std::ranges::find(*named, true) != named->end()) {
    throw f.refusal("layer_types", "holds \"sliding_attention\" but no sliding window is in use");
  }
  if (named && static_cast<int64_t>(named->size()) != c.num_hidden_layers) {
    throw f.refusal("layer_types", "has {} entries for {} layers", named->size(),
                    c.num_hidden_layers);
  }
  if (!size) return;
  std::vector<bool> layers = named.value_or(std::vector<bool>{});
  for (int64_t i = 0; !named && i < c.num_hidden_layers; ++i) layers.push_back(usual(i));
  if (std::ranges::find(layers, true) == layers.end()) return;
  c.sliding_window = size;
  c.window_layers = shortest_period(layers);
}

void write_window(const HfConfig& c, OrderedJson& json) {
  json["sliding_window"] = c.sliding_window ? OrderedJson(*c.sliding_window) : OrderedJson(nullptr);
}

void write_layer_types(const HfConfig& c, OrderedJson& json) {
  OrderedJson types = OrderedJson::array();
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) {
    types.push_back(c.has_window(i) ? "sliding_attention" : "full_attention");
  }
  json["layer_types"] = std::move(types);
}

}  // namespace snug

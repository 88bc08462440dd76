// Sliding windows in config.json: of all layers, or of those that layer_types names.
#pragma once

#include <functional>
#include <optional>

#include "models/families/common.h"

namespace snug {

void read_window(const JsonFields& f, HfConfig& c, std::optional<int64_t> otherwise);
// `size` is none where no window is in use; `usual` says which layers have it where the file does
// not.
void read_layer_windows(const JsonFields& f, HfConfig& c, std::optional<int64_t> size,
                        const std::function<bool(int64_t layer)>& usual);

void write_window(const HfConfig& c, OrderedJson& json);
void write_layer_types(const HfConfig& c, OrderedJson& json);

}  // namespace snug

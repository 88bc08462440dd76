// How a page's document keeps long lists short: each text once, and of a course only its changes.
//
//   Texts texts;
//   texts.index("layers.0.mlp");          // 0, and 0 again
//   changes_of({5, 5, 7, 7})              // [0, 5, 2, 7]: 5 from 0 on, 7 from 2 on
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/layout.h"

namespace snug {

// What a page shows at most, so that it stays small and quick; what it leaves out it says.
inline constexpr int64_t kMostInstants = 12'000, kMostValues = 24'000, kMostSpans = 12'000,
                         kMostSteps = 2'000;

inline int64_t microseconds(double seconds) { return std::llround(seconds * 1e6); }

class Texts {
 public:
  int64_t index(std::string_view text) {
    const auto [found, fresh] = by_text_.try_emplace(std::string(text), std::ssize(all_));
    if (fresh) all_.emplace_back(text);
    return found->second;
  }
  const std::vector<std::string>& all() const { return all_; }

 private:
  std::map<std::string, int64_t, std::less<>> by_text_;
  std::vector<std::string> all_;
};

// Where a name has its layer's prefix: the page puts it in again, so that all layers share a text.
inline constexpr char kLayerMark = '\x01';

// `layers`: their prefixes. "grad.layers.3.mlp.up" of layer 3 -> "grad.\1.mlp.up"
std::string without_layer(const std::vector<std::string>& layers, const std::string& name,
                          int32_t layer);

Json changes_of(std::span<const int64_t> course);

}  // namespace snug

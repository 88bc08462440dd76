#include "base/bar.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace snug {

std::string bar_text(double share, int columns) {
  constexpr std::array<std::string_view, 8> kEighths{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double exact = std::clamp(share, 0.0, 1.0) * columns * 8;
  const int eighths = share > 0 ? std::max(1, static_cast<int>(std::lround(exact))) : 0;
  std::string bar;
  for (int i = 0; i < eighths / 8; ++i) bar += "█";
  bar += kEighths[static_cast<size_t>(eighths % 8)];
  return bar + std::string(static_cast<size_t>(columns - (eighths + 7) / 8), ' ');
}

}  // namespace snug

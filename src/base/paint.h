// Colours for a terminal, or nothing.
//
//   const Paint paint{stdout_is_terminal()};
//   fmt::print("{}\n", paint.good("fits"));
#pragma once

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>

namespace snug {

struct Paint {
  bool on = false;

  std::string title(std::string_view text) const { return in("1", text); }
  std::string quiet(std::string_view text) const { return in("2", text); }
  std::string good(std::string_view text) const { return in("1;32", text); }
  std::string bad(std::string_view text) const { return in("1;31", text); }
  // The rows of a chart differ from their neighbours.
  std::string bar(size_t row, std::string_view text) const {
    constexpr std::array<std::string_view, 6> kHues{"34", "36", "35", "33", "32", "31"};
    return in(kHues[row % kHues.size()], text);
  }

 private:
  std::string in(std::string_view code, std::string_view text) const {
    return on && !text.empty() ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
  }
};

}  // namespace snug

// --lora: low-rank adapters. Every parameter of the model is frozen, and next to each chosen linear
// layer W comes a pair of small ones: y = x W^T + (alpha / r) (x A^T) B^T.
//
//   const Adapters pairs{.rank = 16, .alpha = 32, .targets = {"all"}};   // "r=16,alpha=32"
//
// The pass that adds them is `adapters` (adapters.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace snug {

struct Adapters {
  int64_t rank = 0;  // 0: none, and the model itself is trained
  double alpha = 0;
  double dropout = 0;  // of what A reads
  // "all" linear layers, "qkvo" (those of attention), or the last words of their names in a
  // checkpoint: "q_proj".
  std::vector<std::string> targets;

  bool on() const { return rank > 0; }
  double scale() const { return alpha / static_cast<double>(rank); }
  friend bool operator==(const Adapters&, const Adapters&) = default;

 private:
  friend struct SettingReader;  // settings/parse.h
  // "none" is none.
  static Adapters parse(std::string_view text, std::string_view option);
};
std::string text(const Adapters& adapters);

}  // namespace snug

// --micro-order: in which order the micro-batches of a step go through the layers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace snug {

struct MicroOrder {
  // One micro-batch after another; all of them through a layer before the next layer; or groups of
  // so many.
  enum class Kind : uint8_t { horizontal, vertical, groups } kind = Kind::horizontal;
  int64_t group = 1;  // of Kind::groups

  friend bool operator==(const MicroOrder&, const MicroOrder&) = default;

 private:
  friend struct SettingReader;  // settings/parse.h
  static MicroOrder parse(std::string_view text, std::string_view option);
};

std::string text(const MicroOrder& order);

}  // namespace snug

// --loss: are the logits of all tokens in memory at once, or those of a chunk of tokens?
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace snug {

struct LossChoice {
  bool chunked = true;
  int64_t chunk = 0;  // tokens whose logits exist at the same time; 0: as the device likes

  friend bool operator==(const LossChoice&, const LossChoice&) = default;

 private:
  friend struct SettingReader;  // settings/parse.h
  static LossChoice parse(std::string_view text, std::string_view option);
};

std::string text(const LossChoice& loss);

}  // namespace snug

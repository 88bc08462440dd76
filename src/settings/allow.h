// --allow: what the search may change although it changes results.
#pragma once

#include <vector>

#include "settings/setting_text.h"

namespace snug {

enum class AllowItem : uint8_t { precision, optimizer, compress, base };
template <>
inline constexpr auto kWords<AllowItem> =
    std::to_array<Word<AllowItem>>({{"precision", AllowItem::precision},
                                    {"optimizer", AllowItem::optimizer},
                                    {"compress", AllowItem::compress},
                                    {"base", AllowItem::base}});

struct Allow {
  bool all = false;
  std::vector<AllowItem> items = {};  // in the order of the words, each once

  bool any() const { return all || !items.empty(); }
  bool has(AllowItem item) const;
  friend bool operator==(const Allow&, const Allow&) = default;

 private:
  friend struct SettingReader;  // settings/parse.h
  // "optimizer,precision", "all", ""
  static Allow parse(std::string_view text, std::string_view option);
};
std::string text(const Allow& allow);

}  // namespace snug

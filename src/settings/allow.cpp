#include "settings/allow.h"
#include "settings/parse.h"

#include <algorithm>

namespace snug {
namespace {

constexpr std::string_view kAll = "all";

}  // namespace

bool Allow::has(AllowItem item) const {
  return all || std::ranges::find(items, item) != items.end();
}

Allow Allow::parse(std::string_view text, std::string_view option) {
  Allow allow;
  if (text.empty()) return allow;
  std::vector<std::string> words = words_of<AllowItem>();
  words.emplace_back(kAll);
  for (const std::string& word : split(text, ',')) {
    require_word(word, option, words);
    if (word == kAll) {
      allow.all = true;
    } else {
      allow.items.push_back(parse_setting<AllowItem>(word, option));
    }
  }
  if (allow.all) allow.items.clear();
  std::ranges::sort(allow.items);
  const auto repeated = std::ranges::unique(allow.items);
  allow.items.erase(repeated.begin(), repeated.end());
  return allow;
}

std::string text(const Allow& allow) {
  if (allow.all) return std::string(kAll);
  std::vector<std::string> words;
  for (const AllowItem item : allow.items) words.push_back(print_setting(item));
  return join(words, ",");
}

}  // namespace snug

#include "recipe/with_flags.h"

#include "base/error.h"
#include "base/number.h"
#include "base/text.h"

namespace snug {
namespace {

void set(std::string& member, const std::string& word) { member = word; }
template <typename Number>
void set(Number& member, const std::string& word) {
  if (!read_number(word, member)) throw internal_error("'{}' is not a number", word);
}

}  // namespace

Options with_flags(Options o, std::string_view flags) {
  if (flags.empty()) return o;
  const std::vector<std::string> words = split(flags, ' ');
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string flag = words[i];
    bool known = false;
    each_option(o, [&](std::string_view name, auto& member, std::string_view, OptionUse) {
      if (flag != fmt::format("--{}", name)) return;
      known = true;
      if constexpr (std::is_same_v<decltype(member), bool&>) {
        member = true;
      } else {
        set(member, words.at(++i));
      }
    });
    if (!known) throw internal_error("'{}' is not an option", flag);
  }
  return o;
}

}  // namespace snug

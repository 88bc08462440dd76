// TOML, as far as configuration needs it: the top level's keys, each a number, a text or
// true/false.
//
//   for (const TomlEntry& entry : read_toml(text, "run.toml", {"settled"})) use(entry.key,
//   entry.value);
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace snug {

struct TomlEntry {
  std::string key;
  std::string value;  // as text: 1_000 is "1000", 'a' and "a" are "a"
  int64_t line = 0;
};

bool toml_is_read();  // false: built without toml++, and read_toml refuses everything

// In the order of the file. Tables named in `passed_over` are left out. Throws a usage error with
// the line for what is not TOML, for other tables, and for lists and dates.
std::vector<TomlEntry> read_toml(std::string_view text, std::string_view where,
                                 std::initializer_list<std::string_view> passed_over = {});

// A text as a TOML string, in quotes.
std::string toml_string(std::string_view text);

}  // namespace snug

#include "formats/toml_file.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

#if SNUG_TOML
// toml++ asserts what is not always so (3.3.0: that an hour is digits, 2026-11-17Tx), and assumes it
// in release: here, in every build, what it asserts is what it refuses.
namespace snug {
namespace {
struct TomlAssertion {};
constexpr void require_in_toml(bool holds) {
  if (!holds) throw TomlAssertion();
}
}  // namespace
}  // namespace snug
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(holds) ::snug::require_in_toml(static_cast<bool>(holds))
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")
#endif

namespace snug {

std::string toml_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += fmt::format("\\{}", c);
    else if (byte < 0x20 || byte == 0x7f)
      out += fmt::format("\\u{:04x}", byte);
    else
      out += c;
  }
  return out + "\"";
}

#if SNUG_TOML

bool toml_is_read() { return true; }

namespace {

constexpr const char* kIsToml = "the file is TOML: option = 4, option = true or option = \"text\"";

int64_t line_of(const toml::node& node) { return node.source().begin.line; }

// A value as it would be typed; a float keeps its point, so that 2.0 is no whole number.
std::string text_of(const toml::node& node, std::string_view where, std::string_view key) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return fmt::format("{}", number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  if (const auto* number = node.as_floating_point()) {
    std::string text = fmt::format("{}", number->get());
    return text.find_first_of(".en") == text.npos ? text + ".0" : text;
  }
  throw usage_error("{}: line {}: {} is not a number, a text in quotes, true or false", where,
                    line_of(node), printable(key));
}

}  // namespace

std::vector<TomlEntry> read_toml(std::string_view text, std::string_view where,
                                 std::initializer_list<std::string_view> passed_over) {
  std::vector<TomlEntry> entries;
  try {
    for (const auto& [key, node] : toml::parse(text)) {
      const bool table = node.is_table() || node.is_array_of_tables();
      if (table && std::ranges::find(passed_over, key.str()) != passed_over.end()) continue;
      if (table) {
        throw usage_error("{}: line {}: there is no table [{}]", where, line_of(node),
                          printable(key.str()))
            .hint("options are written as `option = value` before any table");
      }
      entries.push_back({std::string(key.str()), text_of(node, where, key.str()), line_of(node)});
    }
  } catch (const toml::parse_error& error) {
    throw usage_error("{}: line {}: {}", where, error.source().begin.line,
                      printable(error.description()))
        .hint(kIsToml);
  } catch (const TomlAssertion&) {
    throw usage_error("{} is not valid TOML", where).hint(kIsToml);
  }
  std::ranges::stable_sort(entries, {}, &TomlEntry::line);
  return entries;
}

#else

bool toml_is_read() { return false; }

std::vector<TomlEntry> read_toml(std::string_view, std::string_view where,
                                 std::initializer_list<std::string_view>) {
  throw usage_error("{} cannot be read: this snug was built without toml++", where)
      .hint("install libtomlplusplus-dev, or let `./dev build` fetch it, and build again");
}

#endif

}  // namespace snug

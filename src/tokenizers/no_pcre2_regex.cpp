// Stubs of PCRE2 for a build without it: a pattern is refused.
#include "base/error.h"
#include "tokenizers/regex.h"

namespace snug {

struct Regex::Code {};

bool has_regex() { return false; }
std::string_view regex_unicode_version() { return ""; }

Regex::Regex(std::string_view, std::string_view where) {
  throw usage_error("{} has a pattern, which needs PCRE2, and this build does not have it", where)
      .hint("install libpcre2-dev and build again: ./dev build");
}
Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;

std::optional<Range> Regex::find(std::string_view, size_t) const {
  throw internal_error("this build has no PCRE2");
}

}  // namespace snug

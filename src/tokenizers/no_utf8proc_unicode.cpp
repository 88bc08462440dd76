// Stubs of utf8proc for a build without it: require_unicode(), which callers call first, throws.
#include "base/error.h"
#include "tokenizers/unicode.h"

namespace snug {
namespace {

Error not_here() { return internal_error("this build has no utf8proc, and no caller asked"); }

}  // namespace

bool has_unicode() { return false; }
std::string_view unicode_version() { return ""; }
void require_unicode(std::string_view what) {
  throw usage_error("{} needs utf8proc, which this build does not have", what)
      .hint("install libutf8proc-dev and build again: ./dev build");
}

void normalize(NormalForm, std::string_view, std::string&) { throw not_here(); }
void append_lower(std::string&, char32_t) { throw not_here(); }
bool is_mark(char32_t) { throw not_here(); }
bool is_nonspacing_mark(char32_t) { throw not_here(); }
bool is_punctuation(char32_t) { throw not_here(); }
bool is_numeric(char32_t) { throw not_here(); }
bool is_other(char32_t) { throw not_here(); }

}  // namespace snug

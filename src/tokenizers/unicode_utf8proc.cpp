#include <utf8proc.h>

#include <memory>

#include "base/error.h"
#include "tokenizers/unicode.h"
#include "tokenizers/utf8.h"

namespace snug {
namespace {

utf8proc_category_t category_of(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool between(char32_t c, utf8proc_category_t first, utf8proc_category_t last) {
  const utf8proc_category_t category = category_of(c);
  return category >= first && category <= last;
}

int options_of(NormalForm form) {
  constexpr int kStable = UTF8PROC_STABLE;
  switch (form) {
    case NormalForm::nfc:
      return kStable | UTF8PROC_COMPOSE;
    case NormalForm::nfd:
      return kStable | UTF8PROC_DECOMPOSE;
    case NormalForm::nfkc:
      return kStable | UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
    case NormalForm::nfkd:
      return kStable | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
  }
  return kStable;
}

// A run between ASCII: its first character may be ASCII, which what follows may join.
void normalize_run(int options, std::string_view run, std::string& out) {
  utf8proc_uint8_t* result = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(run.data()),
                                             static_cast<utf8proc_ssize_t>(run.size()), &result,
                                             static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(result, &std::free);
  if (size < 0) throw internal_error("utf8proc: {}", utf8proc_errmsg(size));
  out.append(reinterpret_cast<const char*>(result), static_cast<size_t>(size));
}

bool is_ascii_byte(char c) { return static_cast<unsigned char>(c) < 0x80; }

}  // namespace

bool has_unicode() { return true; }
void require_unicode(std::string_view) {}
std::string_view unicode_version() { return utf8proc_unicode_version(); }

// No form changes ASCII, and no ASCII character joins the one before it: only the text between is
// normalized, with the character before it.
void normalize(NormalForm form, std::string_view text, std::string& out) {
  const int options = options_of(form);
  size_t at = 0;
  while (at < text.size()) {
    size_t end = at;
    while (end < text.size() && is_ascii_byte(text[end])) ++end;
    const size_t begin = end > at && end < text.size() ? end - 1 : end;
    out += text.substr(at, begin - at);
    if (begin == text.size()) return;
    while (end < text.size() && !is_ascii_byte(text[end])) ++end;
    normalize_run(options, text.substr(begin, end - begin), out);
    at = end;
  }
}

void append_lower(std::string& out, char32_t c) {
  constexpr char32_t kCapitalWithDot = 0x130;
  if (c == kCapitalWithDot) {
    out += "i\xcc\x87";
    return;
  }
  append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

bool is_mark(char32_t c) { return between(c, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME); }
bool is_nonspacing_mark(char32_t c) { return category_of(c) == UTF8PROC_CATEGORY_MN; }
bool is_punctuation(char32_t c) {
  if (c < 0x80)
    return c > ' ' && c != 0x7f && !((c | 0x20U) >= 'a' && (c | 0x20U) <= 'z') &&
           !(c >= '0' && c <= '9');
  return between(c, UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO);
}
bool is_numeric(char32_t c) { return between(c, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO); }
bool is_other(char32_t c) { return between(c, UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CO); }

}  // namespace snug

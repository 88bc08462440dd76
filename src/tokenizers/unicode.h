// What Unicode says of characters, from utf8proc. A build without it has none of this, and a
// caller asks first:
//
//   require_unicode("tokenizer.json: normalizer NFC");   // throws where the library is missing
//   normalize(NormalForm::nfc, text, out);
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace snug {

bool has_unicode();  // built with utf8proc
// Throws a usage error that names the missing package and `what` needs it.
void require_unicode(std::string_view what);
std::string_view unicode_version();  // "14.0.0"; "" without the library

enum class NormalForm : uint8_t { nfc, nfd, nfkc, nfkd };
// Appends to `out` the normal form of valid UTF-8.
void normalize(NormalForm form, std::string_view text, std::string& out);

// Appends the small letters of one code point: of all but U+0130 it is one.
void append_lower(std::string& out, char32_t c);

bool is_mark(char32_t c);             // M: nonspacing, spacing, enclosing
bool is_nonspacing_mark(char32_t c);  // Mn
bool is_punctuation(char32_t c);      // P, and what ASCII calls punctuation
bool is_numeric(char32_t c);          // N
bool is_other(char32_t c);            // Cc, Cf, Cs, Co: controls, formats, private use

}  // namespace snug

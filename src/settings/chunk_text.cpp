#include "settings/chunk_text.h"

#include "base/number.h"
#include "settings/option_checks.h"
#include "settings/setting_text.h"

namespace snug {
namespace {

constexpr std::string_view kWord = "chunked", kNumbered = "chunked:";

}  // namespace

std::optional<int64_t> parse_chunked(std::string_view text, std::string_view option,
                                     std::string_view of_what) {
  if (text == kWord) return 0;
  if (!text.starts_with(kNumbered)) return {};
  const std::string_view number = text.substr(kNumbered.size());
  int64_t chunk = 0;
  if (!read_number(number, chunk) || chunk < 1)
    throw usage_error("--{} '{}': '{}' is not a number of {}", option, text, number, of_what);
  return chunk;
}

std::string chunked_text(int64_t chunk) {
  return chunk == 0 ? std::string(kWord) : fmt::format("{}{}", kNumbered, chunk);
}

}  // namespace snug

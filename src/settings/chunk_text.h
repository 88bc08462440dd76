// "chunked" and "chunked:N", as attention and loss have them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace snug {

// N, or 0 where it is not given; none: another word. Throws a usage error where N is no number of these.
std::optional<int64_t> parse_chunked(std::string_view text, std::string_view option,
                                     std::string_view of_what);
std::string chunked_text(int64_t chunk);

}  // namespace snug

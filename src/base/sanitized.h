// Whether this build has the address sanitizer. Only tests may ask.
#pragma once

namespace snug {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

}  // namespace snug

#include "base/cache.h"

#include <cstdlib>

namespace snug {

std::filesystem::path cache_file(std::string_view name) {
  const char* caches = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  std::filesystem::path folder;
  if (caches != nullptr && *caches != '\0')
    folder = caches;
  else if (home != nullptr && *home != '\0')
    folder = std::filesystem::path(home) / ".cache";
  else
    return {};
  return folder / "snug" / name;
}

std::string slug(std::string_view name) {
  std::string slug;
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (c >= 'A' && c <= 'Z')
      slug += static_cast<char>(c - 'A' + 'a');
    else
      slug += plain ? c : '-';
  }
  return slug;
}

}  // namespace snug

#include "data/cache_file.h"

#include "base/error.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

// "docs" of "docs/" and of "/data/docs".
fs::path without_slash(const fs::path& data) {
  const fs::path path = fs::absolute(data).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

fs::path directory_of(const CacheFile& cache) {
  if (!cache.directory.empty()) return cache.directory;
  const fs::path parent = cache.data.has_filename() ? cache.data.parent_path() : cache.data / "..";
  return parent / ".snug-tokens";
}

}  // namespace

fs::path CacheFile::path(std::string_view extension) const {
  return directory_of(*this) /
         fmt::format("{}-{}{}", without_slash(data).filename().string(), key, extension);
}

void CacheFile::make_directory() const {
  const fs::path made = directory_of(*this);
  std::error_code failure;
  fs::create_directories(made, failure);
  if (!failure) return;
  throw bad_input("cannot make {} for tokens: {}", made.string(), failure.message())
      .hint("--cache DIR names another directory for them");
}

void add_content(Checksum& sum, std::span<const TextFile> files) {
  for (const TextFile& file : files) {
    sum.add(fmt::format(" {} ", file.size));
    open_unchanged(file).each_block(0, [&](int64_t, std::span<const std::byte> block) {
      sum.add(block);
      return true;
    });
  }
}

}  // namespace snug

#include "data/text_files.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>

#include "base/error.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

// Regular files below a directory, by path, without hidden ones and hidden directories.
std::vector<fs::path> files_below(const fs::path& directory) {
  std::vector<fs::path> files;
  std::error_code failure;
  fs::recursive_directory_iterator at(directory, fs::directory_options::skip_permission_denied,
                                      failure);
  for (; !failure && at != fs::recursive_directory_iterator(); at.increment(failure)) {
    if (is_hidden(at->path())) {
      at.disable_recursion_pending();
    } else if (std::error_code is_gone; at->is_regular_file(is_gone)) {
      files.push_back(at->path());
    }
  }
  if (failure) throw bad_input("cannot list {}: {}", directory.string(), failure.message());
  std::sort(files.begin(), files.end());
  return files;
}

bool holds_zero_byte(const FileReader& file) {
  bool found = false;
  file.each_block(0, [&](int64_t, std::span<const std::byte> block) {
    found = std::memchr(block.data(), 0, block.size()) != nullptr;
    return !found;
  });
  return found;
}

std::vector<TextFile> text_files_below(const fs::path& directory) {
  std::vector<TextFile> files;
  for (const fs::path& path : files_below(directory)) {
    const FileReader file(path);
    if (file.size() > 0 && !holds_zero_byte(file)) files.push_back({path, file.size()});
  }
  if (files.empty()) throw bad_input("{} holds no files of text", directory.string());
  return files;
}

std::vector<TextFile> one_text_file(const fs::path& path) {
  const FileReader file(path);
  if (file.size() == 0) throw bad_input("{} is empty", path.string());
  return {{path, file.size()}};
}

}  // namespace

bool is_hidden(const std::filesystem::path& path) {
  return path.filename().string().starts_with('.');
}

std::vector<TextFile> text_files(const fs::path& path) {
  return fs::is_directory(path) ? text_files_below(path) : one_text_file(path);
}

FileReader open_unchanged(const TextFile& file) {
  FileReader reader(file.path);
  if (reader.size() == file.size) return reader;
  throw bad_input("{} had {} bytes when it was opened and now has {}", file.path.string(),
                  file.size, reader.size())
      .hint("something changed it while it was in use");
}

}  // namespace snug

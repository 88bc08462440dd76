// Where tokens of some data are kept: a file whose name says of which data and which tokenizer they
// are.
//
//   const CacheFile cache{.data = "book.txt", .directory = "", .key = "44bc2cf5ad770999"};
//   cache.path(".bin");   // ".snug-tokens/book.txt-44bc2cf5ad770999.bin"
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/checksum.h"
#include "data/text_files.h"

namespace snug {

struct CacheFile {
  std::filesystem::path data;
  std::filesystem::path directory;  // empty: .snug-tokens next to the data
  std::string key;

  std::filesystem::path path(std::string_view extension) const;
  // Makes the directory. Throws bad_input where that fails.
  void make_directory() const;
};

// Adds sizes and content of all files.
void add_content(Checksum& sum, std::span<const TextFile> files);

}  // namespace snug

// The files of text that --data names, each a document.
//
//   for (const TextFile& file : text_files("data/")) use(open_unchanged(file));
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "formats/file_reader.h"

namespace snug {

// A file of text as it was when it was found.
struct TextFile {
  std::filesystem::path path;
  int64_t size = 0;
};

// A file, or all files of text below a directory in the order of their paths. Hidden names, empty
// files and files with a zero byte are left out. Throws bad_input where there is nothing.
std::vector<TextFile> text_files(const std::filesystem::path& path);

// Throws bad_input where its size is another one by now.
FileReader open_unchanged(const TextFile& file);

bool is_hidden(const std::filesystem::path& path);

}  // namespace snug

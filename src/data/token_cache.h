// Text for a model with a tokenizer is tokenized once: its tokens are kept in a file whose name
// says of which text and which tokenizer they are.
//
//   cached_tokens({.data = "book.txt", .model = "Qwen2.5-0.5B", .V = 151936});
//   // ".snug-tokens/book.txt-44bc2cf5ad770999.bin", written where it was not there
#pragma once

#include <cstdint>
#include <filesystem>

namespace snug {

struct TokenCacheQuestion {
  std::filesystem::path data;       // a text, or a directory of texts
  std::filesystem::path model;      // a directory with tokenizer.json
  int64_t V = 0;                    // rows of its embedding
  std::filesystem::path directory;  // of cached tokens; empty: .snug-tokens next to the data
};

// Throws as open_model_tokenizer and text_files do, and bad_input where nothing can be written.
std::filesystem::path cached_tokens(const TokenCacheQuestion& question);

}  // namespace snug

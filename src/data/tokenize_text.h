// Documents to tokens, on all cores, in pieces: neither the text nor its tokens are in memory
// whole.
//
//   TokenFileWriter file("tokens.bin", V);
//   tokenize_text(text_files("data/"), tokenizer, end_of_text, file, progress);
//   file.commit();
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "data/text_files.h"
#include "formats/token_file_writer.h"
#include "tokenizers/tokenizer.h"

namespace snug {

struct TokenizeProgress {
  int64_t bytes = 0, all_bytes = 0;  // of text, that are done
  int64_t tokens = 0;
};

// Each file is a document; `end_of_text` goes between two. Bytes that are not UTF-8 become U+FFFD.
// Throws bad_input where a file changed since it was found, or `out` cannot be written.
void tokenize_text(std::span<const TextFile> files, const Tokenizer& tokenizer, int32_t end_of_text,
                   TokenFileWriter& out,
                   const std::function<void(const TokenizeProgress&)>& progress);

}  // namespace snug

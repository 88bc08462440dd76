// Where tokens come from: one flat stream, read by position, whatever holds it.
//
//   auto stream = open_tokens("data/", {.V = 256});
//   stream->text();               // "data/ (41 files, 310,224 bytes of text, one token per byte)"
//   stream->copy(1000, row);      // tokens 1000 and on; allocates nothing
//
// Every source checks its tokens against the vocabulary when it is opened. Nothing of a file stays
// in memory; reading fails, as bad_input, only where a file was truncated or replaced since.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace snug {

class TokenStream {
 public:
  virtual ~TokenStream() = default;
  virtual int64_t size() const = 0;  // in tokens
  // Tokens [begin, begin + out.size()), which lie inside the stream.
  virtual void copy(int64_t begin, std::span<int32_t> out) const = 0;
  // Whether some tokens are not to be learned; puts `hidden` in the place of those of tokens
  // [begin, begin + tokens.size()) that are not.
  virtual bool masked() const { return false; }
  virtual void hide_masked(int64_t, std::span<int32_t>, int32_t) const {}
  // Its kind and size, for the person at the terminal and for errors.
  virtual std::string text() const = 0;
};

// Token files: a .bin file, any file that begins as llm.c's or LLM.Q's do, or a directory with .bin
// files: those with "train" in their names where there are such, in the order of their names.
// Text: any other file, one token per byte; or a directory, all its files of text in the order of
// their paths with a zero byte between two. Hidden names and files with a zero byte are left out.
struct TokenSource {
  int64_t V = 0;               // vocabulary
  int64_t token_bytes = 0;     // of token files without header: 2, 4, or 0: 2 unless values deny it
  bool has_tokenizer = false;  // the model's tokens are not bytes: text is refused
};

// Throws bad_input when there is nothing to read, or a token is not below the vocabulary; a usage
// error for text that a tokenizer should have read.
std::unique_ptr<TokenStream> open_tokens(const std::filesystem::path& path,
                                         const TokenSource& source);

// Whether open_tokens would read text there.
bool holds_text(const std::filesystem::path& path);

// Random tokens without end, small ones more frequent, so that there is something to learn.
std::unique_ptr<TokenStream> synthetic_tokens(uint64_t seed, int64_t V);

}  // namespace snug

// Token files of other trainers, read by position: llm.c, LLM.Q, nanoGPT and Megatron.
//
//   TokenFile file = TokenFile::open("fineweb_train_000001.bin");
//   file.format();                 // "llm.c"
//   file.copy(0, row);             // the first row.size() tokens as int32
//
// Layouts (little-endian): llm.c has 256 int32 first: 20240520, 1 (uint16 tokens) or 20240801, 7
// (uint32), then the count. LLM.Q has "BIN.TOK\n", then int32 version, bytes per token, count,
// vocabulary, mask flag; tokens from byte 1024 on, and where the flag is set a bit for each after
// them, the lowest of a byte first: 1 where a token is to be learned. nanoGPT is tokens and nothing else: uint16, or
// uint32 where the caller says so. Megatron has the same in X.bin, and in X.idx how wide tokens are
// (megatron_index.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

#include "formats/file_reader.h"

namespace snug {

enum class TokenFormat : uint8_t { llmc, llmq, nanogpt, megatron };
std::string_view name_of(TokenFormat format);  // "llm.c", "llm.q", "nanogpt", ...

// Where the tokens are and how they are to be read.
struct TokenLayout {
  TokenFormat format = TokenFormat::nanogpt;
  int64_t offset = 0;       // of the first token, in bytes: a multiple of token_bytes
  int64_t token_bytes = 2;  // 2 or 4
  int64_t count = 0;
  int64_t vocabulary = 0;  // 0 when the file does not say
  bool masked = false;     // it says which tokens are to be learned
};

// Whether a file should be opened as tokens: it is called .bin, or begins as llm.c's or LLM.Q's do.
bool is_token_file(const std::filesystem::path& path);

struct TokenFileOptions {
  std::optional<TokenFormat> format;  // none: as the file begins, or an index next to it says
  int64_t token_bytes = 0;            // 2 or 4, where the caller knows; 0: as the file says
};

class TokenFile {
 public:
  // Throws bad_input when the header, the count and the file's size disagree, there are no tokens,
  // or a file without header that is to be read as uint16 shows that it holds uint32.
  static TokenFile open(const std::filesystem::path& path, const TokenFileOptions& options = {});

  const std::filesystem::path& path() const { return file_.path(); }
  std::string_view format() const { return name_of(layout_.format); }
  int64_t size() const { return layout_.count; }             // in tokens
  int64_t vocabulary() const { return layout_.vocabulary; }  // 0 when the file does not say

  uint32_t token(int64_t i) const;
  // Tokens [begin, begin + out.size()) as int32. Allocates nothing. Throws bad_input where the file
  // was truncated since it was opened.
  void copy(int64_t begin, std::span<int32_t> out) const;

  bool masked() const { return layout_.masked; }
  // Puts `hidden` in the place of those of tokens [begin, begin + tokens.size()) that are not to be
  // learned. Allocates nothing.
  void hide_masked(int64_t begin, std::span<int32_t> tokens, int32_t hidden) const;

  // Position of the first token >= limit, or none: one vectorised sweep over the file.
  std::optional<int64_t> find_at_least(uint32_t limit) const;

 private:
  TokenFile(FileReader file, const TokenLayout& layout);

  template <typename Token>
  void copy_as(int64_t begin, std::span<int32_t> out) const;
  template <typename Token>
  std::optional<int64_t> find_as(uint32_t limit) const;

  FileReader file_;
  TokenLayout layout_;
};

}  // namespace snug

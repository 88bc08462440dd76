// Writes a token file as LLM.Q does (token_file.h): its header says how wide tokens are and of which
// vocabulary, so that no option has to. It appears when it is complete.
//
//   TokenFileWriter file("tokens.bin", 151936);
//   file.write(ids);
//   file.commit();
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "base/staged_file.h"

namespace snug {

class TokenFileWriter {
 public:
  // Tokens are below `vocabulary`: 16 bits where that is enough for all, else 32. Throws bad_input
  // where it cannot write, and so do the others.
  TokenFileWriter(const std::filesystem::path& path, int64_t vocabulary);

  void write(std::span<const int32_t> tokens);
  int64_t count() const { return count_; }
  void commit();

 private:
  StagedFile file_;
  int64_t vocabulary_;
  int64_t count_ = 0;
  std::vector<uint16_t> narrow_;
};

}  // namespace snug

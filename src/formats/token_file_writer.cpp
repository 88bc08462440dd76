#include "formats/token_file_writer.h"

#include <array>
#include <cstring>
#include <limits>

#include "base/error.h"

namespace snug {
namespace {

constexpr int64_t kNarrowVocabulary = int64_t{1} << 16;

// "BIN.TOK\n", then int32 version, bytes per token, count, vocabulary, mask flag.
std::array<std::byte, 1024> header_of(int64_t vocabulary, int64_t count) {
  std::array<std::byte, 1024> header{};
  constexpr int32_t kVersion = 2;
  const std::array<int32_t, 5> fields{kVersion, vocabulary > kNarrowVocabulary ? 4 : 2,
                                      static_cast<int32_t>(count), static_cast<int32_t>(vocabulary),
                                      0};
  std::memcpy(header.data(), "BIN.TOK\n", 8);
  std::memcpy(header.data() + 8, fields.data(), sizeof fields);
  return header;
}

}  // namespace

TokenFileWriter::TokenFileWriter(const std::filesystem::path& path, int64_t vocabulary)
    : file_(path), vocabulary_(vocabulary) {
  file_.write(header_of(vocabulary, 0));
}

void TokenFileWriter::write(std::span<const int32_t> tokens) {
  count_ += static_cast<int64_t>(tokens.size());
  if (count_ > std::numeric_limits<int32_t>::max()) {
    throw bad_input("{}: more than {} tokens, which its header cannot count",
                    file_.target().string(), std::numeric_limits<int32_t>::max())
        .hint("write the text to several files, in a directory that --data names");
  }
  if (vocabulary_ > kNarrowVocabulary) return file_.write(std::as_bytes(tokens));
  narrow_.assign(tokens.begin(), tokens.end());
  file_.write(std::as_bytes(std::span(narrow_)));
}

void TokenFileWriter::commit() {
  file_.rewrite(0, header_of(vocabulary_, count_));
  file_.commit();
}

}  // namespace snug

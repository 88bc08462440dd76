#include "formats/token_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "base/error.h"
#include "formats/sample_file.h"

namespace snug {
namespace {

constexpr std::array<std::string_view, 3> kNames{"llm.c", "llm.q", "nanogpt"};
constexpr int64_t kHeaderBytes = 1024;
constexpr std::string_view kLlmqMagic = "BIN.TOK\n";

struct LlmcVersion {
  int32_t magic;
  int32_t version;
  int64_t token_bytes;
};
constexpr std::array<LlmcVersion, 2> kLlmcVersions{{{20240520, 1, 2}, {20240801, 7, 4}}};

// A file and its first bytes, which are all that formats are told apart by.
struct Opened {
  FileReader file;
  std::array<std::byte, kHeaderBytes> head{};

  explicit Opened(const std::filesystem::path& path) : file(path) {
    file.read(0, std::span(head).first(std::min(head.size(), static_cast<size_t>(file.size()))));
  }
  int64_t size() const { return file.size(); }
  std::string path() const { return file.path(); }
  int32_t int32_at(size_t byte) const {
    int32_t number = 0;
    std::memcpy(&number, head.data() + byte, sizeof number);
    return number;
  }
};

bool begins_as_llmq(const Opened& file) {
  return file.size() >= static_cast<int64_t>(kLlmqMagic.size()) &&
         std::memcmp(file.head.data(), kLlmqMagic.data(), kLlmqMagic.size()) == 0;
}

const LlmcVersion* llmc_version(const Opened& file) {
  if (file.size() < static_cast<int64_t>(sizeof(int32_t))) return nullptr;
  const auto* found = std::find_if(kLlmcVersions.begin(), kLlmcVersions.end(),
                                   [&](const auto& v) { return v.magic == file.int32_at(0); });
  return found == kLlmcVersions.end() ? nullptr : found;
}

TokenFormat detect(const Opened& file) {
  if (begins_as_llmq(file)) return TokenFormat::llmq;
  return llmc_version(file) != nullptr ? TokenFormat::llmc : TokenFormat::nanogpt;
}

// Megatron's .bin has no header either; only the index beside it tells the two apart.
void refuse_megatron(std::filesystem::path path) {
  const std::filesystem::path index = path.replace_extension(".idx");
  if (!std::filesystem::exists(index)) return;
  throw bad_input("{} marks Megatron tokens, which are not supported", index.string())
      .hint("write the tokens as a nanoGPT file (uint16, no header) or an llm.c file");
}

void require_header(const Opened& file, TokenFormat format) {
  if (file.size() >= kHeaderBytes) return;
  throw bad_input("{}: truncated: an {} header is {} bytes, the file has {}", file.path(),
                  name_of(format), kHeaderBytes, file.size());
}

// The header's count against the file's size, without trusting either.
void check_count(const Opened& file, int64_t count, int64_t token_bytes) {
  const int64_t data = file.size() - kHeaderBytes;
  if (count >= 0 && count == data / token_bytes && data % token_bytes == 0) return;
  throw bad_input("{}: the header counts {} tokens of {} bytes, but {} bytes of data follow",
                  file.path(), count, token_bytes, data)
      .hint("download it, or tokenize the text, again");
}

TokenLayout read_llmc(const Opened& file) {
  const LlmcVersion* known = llmc_version(file);
  if (known == nullptr) throw bad_input("{} does not begin as an llm.c file", file.path());
  require_header(file, TokenFormat::llmc);
  if (file.int32_at(4) != known->version) {
    throw bad_input("{}: llm.c header {} has version {}, expected {}", file.path(), known->magic,
                    file.int32_at(4), known->version);
  }
  const int64_t count = file.int32_at(8);
  check_count(file, count, known->token_bytes);
  return {TokenFormat::llmc, kHeaderBytes, known->token_bytes, count};
}

TokenLayout read_llmq(const Opened& file) {
  const std::string path = file.path();
  if (!begins_as_llmq(file)) throw bad_input("{} does not begin as an llm.q file", path);
  require_header(file, TokenFormat::llmq);
  const int64_t token_bytes = file.int32_at(12);
  const int64_t count = file.int32_at(16);
  const int64_t vocabulary = file.int32_at(20);
  if (token_bytes != 2 && token_bytes != 4) {
    throw bad_input("{}: tokens of {} bytes; 2 and 4 are read", path, token_bytes);
  }
  if (file.int32_at(24) != 0) {
    throw bad_input("{} carries a loss mask, which is not supported", path)
        .hint("tokenize the text again without a mask");
  }
  if (vocabulary < 0) throw bad_input("{}: the header's vocabulary is {}", path, vocabulary);
  check_count(file, count, token_bytes);
  return {TokenFormat::llmq, kHeaderBytes, token_bytes, count, vocabulary};
}

// uint32 tokens, looked at as uint16, are a low and a high word in turn, and all the high ones are
// small: no text in uint16 has every second token below 8.
bool holds_wide_tokens(const FileReader& file) {
  constexpr int64_t kEnoughTokens = 16;
  constexpr uint16_t kLargestHighWord = 7;  // vocabularies up to 2^19
  if (file.size() % 4 != 0 || file.size() / 2 < kEnoughTokens) return false;
  bool wide = true;
  bool low_words_are_larger = false;
  file.each_block(0, [&](int64_t, std::span<const std::byte> block) {
    uint16_t low = 0, high = 0;
    for (size_t i = 0; i + 4 <= block.size(); i += 4) {
      std::array<uint16_t, 2> words{};
      std::memcpy(words.data(), block.data() + i, sizeof words);
      low = std::max(low, words[0]);
      high = std::max(high, words[1]);
    }
    low_words_are_larger |= low > kLargestHighWord;
    return wide = high <= kLargestHighWord;
  });
  return wide && low_words_are_larger;
}

TokenLayout read_nanogpt(const Opened& file) { return {.count = file.size() / 2}; }

// What a file without header holds is what the caller says, or uint16 unless the values deny it.
TokenLayout with_width(const Opened& file, TokenLayout layout, int64_t asked) {
  if (layout.format != TokenFormat::nanogpt) {
    if (asked == 0 || asked == layout.token_bytes) return layout;
    throw bad_input("{}: its header says that tokens have {} bytes, not {}", file.path(),
                    layout.token_bytes, asked);
  }
  if (asked == 0 && holds_wide_tokens(file.file)) {
    throw bad_input(
        "{} has no header and looks like 32-bit tokens: every second 16-bit word is tiny",
        file.path())
        .hint("say --token-bytes 4, or --token-bytes 2 where they are 16-bit tokens after all");
  }
  layout.token_bytes = asked == 0 ? 2 : asked;
  if (file.size() % layout.token_bytes != 0) {
    throw bad_input("{} holds {} bytes: not a whole number of uint{} tokens", file.path(),
                    file.size(), 8 * layout.token_bytes);
  }
  layout.count = file.size() / layout.token_bytes;
  return layout;
}

}  // namespace

std::string_view name_of(TokenFormat format) { return kNames[static_cast<size_t>(format)]; }

std::optional<TokenFormat> parse_token_format(std::string_view name) {
  const auto* at = std::find(kNames.begin(), kNames.end(), name);
  if (at == kNames.end()) return std::nullopt;
  return static_cast<TokenFormat>(at - kNames.begin());
}

bool is_token_file(const std::filesystem::path& path) {
  return path.extension() == ".bin" || detect(Opened(path)) != TokenFormat::nanogpt;
}

TokenFile TokenFile::open(const std::filesystem::path& path, const TokenFileOptions& options) {
  Opened file(path);
  if (is_sample_file(path))
    throw bad_input("{} holds samples, not a stream of tokens", path.string())
        .hint("name the file itself, not its directory, as --data");
  const TokenFormat format = options.format.value_or(detect(file));
  if (!options.format && format == TokenFormat::nanogpt) refuse_megatron(path);
  constexpr std::array readers{read_llmc, read_llmq, read_nanogpt};
  const TokenLayout layout =
      with_width(file, readers[static_cast<size_t>(format)](file), options.token_bytes);
  if (layout.count == 0) throw bad_input("{} holds no tokens", path.string());
  return {std::move(file.file), layout};
}

TokenFile::TokenFile(FileReader file, const TokenLayout& layout)
    : file_(std::move(file)), layout_(layout) {}

uint32_t TokenFile::token(int64_t i) const {
  int32_t token = 0;
  copy(i, std::span(&token, 1));
  return static_cast<uint32_t>(token);
}

template <typename Token>
void TokenFile::copy_as(int64_t begin, std::span<int32_t> out) const {
  std::array<Token, 4096> buffer;
  int64_t at = layout_.offset + begin * static_cast<int64_t>(sizeof(Token));
  while (!out.empty()) {
    const auto piece = std::span(buffer).first(std::min(buffer.size(), out.size()));
    file_.read(at, std::as_writable_bytes(piece));
    std::transform(piece.begin(), piece.end(), out.begin(),
                   [](Token token) { return static_cast<int32_t>(token); });
    at += static_cast<int64_t>(piece.size_bytes());
    out = out.subspan(piece.size());
  }
}

void TokenFile::copy(int64_t begin, std::span<int32_t> out) const {
  if (begin < 0 || begin > size() - static_cast<int64_t>(out.size())) {
    throw internal_error("{}: tokens {} to {} of {}", path().string(), begin,
                         begin + static_cast<int64_t>(out.size()), size());
  }
  if (layout_.token_bytes == 2)
    copy_as<uint16_t>(begin, out);
  else
    copy_as<uint32_t>(begin, out);
}

template <typename Token>
std::optional<int64_t> TokenFile::find_as(uint32_t limit) const {
  if (limit > std::numeric_limits<Token>::max()) return std::nullopt;
  std::optional<int64_t> found;
  file_.each_block(layout_.offset, [&](int64_t at, std::span<const std::byte> bytes) {
    // Blocks are aligned and hold whole tokens. The largest is found without a branch, so that the
    // compiler makes vector code of it.
    const std::span tokens(reinterpret_cast<const Token*>(bytes.data()),
                           bytes.size() / sizeof(Token));
    Token largest = 0;
    for (const Token token : tokens) largest = std::max(largest, token);
    if (largest < limit) return true;
    const auto first =
        std::find_if(tokens.begin(), tokens.end(), [&](Token t) { return t >= limit; });
    found = (at - layout_.offset) / static_cast<int64_t>(sizeof(Token)) + (first - tokens.begin());
    return false;
  });
  return found;
}

std::optional<int64_t> TokenFile::find_at_least(uint32_t limit) const {
  return layout_.token_bytes == 2 ? find_as<uint16_t>(limit) : find_as<uint32_t>(limit);
}

}  // namespace snug

#include "formats/token_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "formats/megatron_index.h"
#include "formats/sample_file.h"

namespace snug {
namespace {

constexpr std::array<std::string_view, 4> kNames{"llm.c", "llm.q", "nanogpt", "megatron"};
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

// Files without a header are nanoGPT's, or Megatron's where an index is next to them.
TokenFormat detect(const Opened& file) {
  if (begins_as_llmq(file)) return TokenFormat::llmq;
  if (llmc_version(file) != nullptr) return TokenFormat::llmc;
  std::error_code ignored;
  return std::filesystem::exists(megatron_index_of(file.path()), ignored) ? TokenFormat::megatron
                                                                          : TokenFormat::nanogpt;
}

void require_header(const Opened& file, TokenFormat format) {
  if (file.size() >= kHeaderBytes) return;
  throw bad_input("{}: truncated: an {} header is {} bytes, the file has {}", file.path(),
                  name_of(format), kHeaderBytes, file.size());
}

// The header's count against the file's size, without trusting either.
void check_count(const Opened& file, int64_t count, int64_t token_bytes, bool masked = false) {
  const int64_t data = file.size() - kHeaderBytes;
  const int64_t mask = masked ? ceil_div(std::max<int64_t>(count, 0), 8) : 0;
  if (count >= 0 && data == count * token_bytes + mask) return;
  throw bad_input("{}: the header counts {} tokens of {} bytes{}, but {} bytes of data follow",
                  file.path(), count, token_bytes, masked ? " and a mask" : "", data)
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
  const bool masked = file.int32_at(24) != 0;
  if (vocabulary < 0) throw bad_input("{}: the header's vocabulary is {}", path, vocabulary);
  check_count(file, count, token_bytes, masked);
  return {TokenFormat::llmq, kHeaderBytes, token_bytes, count, vocabulary, masked};
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

// It has no header either; the index next to it says how wide tokens are.
TokenLayout read_megatron(const Opened& file) {
  const MegatronIndex index = read_megatron_index(megatron_index_of(file.path()));
  if (file.size() != index.tokens * index.token_bytes) {
    throw bad_input("{} holds {} bytes, and its index counts {} tokens of {} bytes", file.path(),
                    file.size(), index.tokens, index.token_bytes)
        .hint("the two do not belong together, or one was cut off: copy both again");
  }
  return {.format = TokenFormat::megatron, .token_bytes = index.token_bytes, .count = index.tokens};
}

// What a file without header holds is what the caller says, or uint16 unless the values deny it.
TokenLayout with_width(const Opened& file, TokenLayout layout, int64_t asked) {
  if (layout.format != TokenFormat::nanogpt) {
    if (asked == 0 || asked == layout.token_bytes) return layout;
    throw bad_input("{}: its {} says that tokens have {} bytes, not {}", file.path(),
                    layout.format == TokenFormat::megatron ? "index" : "header", layout.token_bytes,
                    asked);
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

bool is_token_file(const std::filesystem::path& path) {
  if (path.extension() == ".bin") return true;
  const Opened file(path);
  return begins_as_llmq(file) || llmc_version(file) != nullptr;
}

TokenFile TokenFile::open(const std::filesystem::path& path, const TokenFileOptions& options) {
  Opened file(path);
  if (is_sample_file(path))
    throw bad_input("{} holds samples, not a stream of tokens", path.string())
        .hint("name the file itself, not its directory, as --data");
  const TokenFormat format = options.format.value_or(detect(file));
  constexpr std::array readers{read_llmc, read_llmq, read_nanogpt, read_megatron};
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

void TokenFile::hide_masked(int64_t begin, std::span<int32_t> tokens, int32_t hidden) const {
  if (!masked()) return;
  constexpr int64_t kBits = 8;
  std::array<std::byte, 512> buffer;
  const int64_t mask = layout_.offset + size() * layout_.token_bytes;
  while (!tokens.empty()) {
    const int64_t first = begin % kBits;
    const auto room = static_cast<int64_t>(buffer.size()) * kBits - first;
    const int64_t n = std::min(room, static_cast<int64_t>(tokens.size()));
    file_.read(mask + begin / kBits,
               std::span(buffer).first(static_cast<size_t>(ceil_div(first + n, kBits))));
    for (int64_t i = 0; i < n; ++i) {
      const auto bits = std::to_integer<unsigned>(buffer[static_cast<size_t>((first + i) / kBits)]);
      if ((bits >> ((first + i) % kBits) & 1U) == 0) tokens[static_cast<size_t>(i)] = hidden;
    }
    begin += n;
    tokens = tokens.subspan(static_cast<size_t>(n));
  }
}

template <typename Token>
std::optional<int64_t> TokenFile::find_as(uint32_t limit) const {
  if (limit > std::numeric_limits<Token>::max()) return std::nullopt;
  std::optional<int64_t> found;
  const int64_t end = layout_.offset + size() * static_cast<int64_t>(sizeof(Token));
  file_.each_block(layout_.offset, [&](int64_t at, std::span<const std::byte> bytes) {
    if (at >= end) return false;  // only a mask follows
    bytes = bytes.first(std::min(bytes.size(), static_cast<size_t>(end - at)));
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

#include "formats/token_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "base/error.h"

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

int32_t int32_at(const MappedFile& file, size_t byte) {
  int32_t number = 0;
  std::memcpy(&number, file.bytes().data() + byte, sizeof number);
  return number;
}

bool begins_as_llmq(const MappedFile& file) {
  return file.size() >= static_cast<int64_t>(kLlmqMagic.size()) &&
         std::memcmp(file.bytes().data(), kLlmqMagic.data(), kLlmqMagic.size()) == 0;
}

const LlmcVersion* llmc_version(const MappedFile& file) {
  if (file.size() < static_cast<int64_t>(sizeof(int32_t))) return nullptr;
  const auto* found = std::find_if(kLlmcVersions.begin(), kLlmcVersions.end(),
                                   [&](const auto& v) { return v.magic == int32_at(file, 0); });
  return found == kLlmcVersions.end() ? nullptr : found;
}

TokenFormat detect(const MappedFile& file) {
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

void require_header(const MappedFile& file, TokenFormat format) {
  if (file.size() >= kHeaderBytes) return;
  throw bad_input("{}: truncated: an {} header is {} bytes, the file has {}", file.path().string(),
                  name_of(format), kHeaderBytes, file.size());
}

// The header's count against the file's size, without trusting either.
void check_count(const MappedFile& file, int64_t count, int64_t token_bytes) {
  const int64_t data = file.size() - kHeaderBytes;
  if (count >= 0 && count == data / token_bytes && data % token_bytes == 0) return;
  throw bad_input("{}: the header counts {} tokens of {} bytes, but {} bytes of data follow",
                  file.path().string(), count, token_bytes, data)
      .hint("download it, or tokenize the text, again");
}

TokenLayout read_llmc(const MappedFile& file) {
  const LlmcVersion* known = llmc_version(file);
  if (known == nullptr) throw bad_input("{} does not begin as an llm.c file", file.path().string());
  require_header(file, TokenFormat::llmc);
  if (int32_at(file, 4) != known->version) {
    throw bad_input("{}: llm.c header {} has version {}, expected {}", file.path().string(),
                    known->magic, int32_at(file, 4), known->version);
  }
  const int64_t count = int32_at(file, 8);
  check_count(file, count, known->token_bytes);
  return {TokenFormat::llmc, kHeaderBytes, known->token_bytes, count};
}

TokenLayout read_llmq(const MappedFile& file) {
  const std::string path = file.path().string();
  if (!begins_as_llmq(file)) throw bad_input("{} does not begin as an llm.q file", path);
  require_header(file, TokenFormat::llmq);
  const int64_t token_bytes = int32_at(file, 12);
  const int64_t count = int32_at(file, 16);
  const int64_t vocabulary = int32_at(file, 20);
  if (token_bytes != 2 && token_bytes != 4) {
    throw bad_input("{}: tokens of {} bytes; 2 and 4 are read", path, token_bytes);
  }
  if (int32_at(file, 24) != 0) {
    throw bad_input("{} carries a loss mask, which is not supported", path)
        .hint("tokenize the text again without a mask");
  }
  if (vocabulary < 0) throw bad_input("{}: the header's vocabulary is {}", path, vocabulary);
  check_count(file, count, token_bytes);
  return {TokenFormat::llmq, kHeaderBytes, token_bytes, count, vocabulary};
}

TokenLayout read_nanogpt(const MappedFile& file) {
  if (file.size() % 2 != 0) {
    throw bad_input("{} holds {} bytes: not a whole number of uint16 tokens", file.path().string(),
                    file.size());
  }
  return {.count = file.size() / 2};
}

}  // namespace

std::string_view name_of(TokenFormat format) { return kNames[static_cast<size_t>(format)]; }

std::optional<TokenFormat> parse_token_format(std::string_view name) {
  const auto* at = std::find(kNames.begin(), kNames.end(), name);
  if (at == kNames.end()) return std::nullopt;
  return static_cast<TokenFormat>(at - kNames.begin());
}

bool is_token_file(const std::filesystem::path& path) {
  return path.extension() == ".bin" || detect(MappedFile(path)) != TokenFormat::nanogpt;
}

TokenFile TokenFile::open(const std::filesystem::path& path, std::optional<TokenFormat> hint) {
  MappedFile file(path);
  const TokenFormat format = hint.value_or(detect(file));
  if (!hint && format == TokenFormat::nanogpt) refuse_megatron(path);
  constexpr std::array readers{read_llmc, read_llmq, read_nanogpt};
  const TokenLayout layout = readers[static_cast<size_t>(format)](file);
  if (layout.count == 0) throw bad_input("{} holds no tokens", path.string());
  return {std::move(file), layout};
}

TokenFile::TokenFile(MappedFile file, const TokenLayout& layout)
    : file_(std::move(file)), layout_(layout) {}

template <typename Visit>
auto TokenFile::with_tokens(Visit&& visit) const {
  // Aligned: a mapping begins at a page and headers are 1024 bytes.
  const std::byte* first = file_.bytes().data() + layout_.offset;
  const auto n = static_cast<size_t>(layout_.count);
  if (layout_.token_bytes == 2)
    return visit(std::span(reinterpret_cast<const uint16_t*>(first), n));
  return visit(std::span(reinterpret_cast<const uint32_t*>(first), n));
}

uint32_t TokenFile::token(int64_t i) const {
  return with_tokens([&](auto tokens) -> uint32_t { return tokens[static_cast<size_t>(i)]; });
}

void TokenFile::copy(int64_t begin, std::span<int32_t> out) const {
  if (begin < 0 || begin > size() - static_cast<int64_t>(out.size())) {
    throw internal_error("{}: tokens {} to {} of {}", path().string(), begin,
                         begin + static_cast<int64_t>(out.size()), size());
  }
  with_tokens([&](auto tokens) {
    const auto from = tokens.subspan(static_cast<size_t>(begin), out.size());
    std::transform(from.begin(), from.end(), out.begin(),
                   [](auto token) { return static_cast<int32_t>(token); });
  });
}

std::optional<int64_t> TokenFile::find_at_least(uint32_t limit) const {
  return with_tokens([&](auto tokens) -> std::optional<int64_t> {
    using Token = typename decltype(tokens)::value_type;
    if (limit > std::numeric_limits<Token>::max()) return std::nullopt;
    // Whole blocks are tested without a branch, so that the compiler makes vector code of it.
    constexpr size_t kBlock = 4096;
    for (size_t begin = 0; begin < tokens.size(); begin += kBlock) {
      const auto block = tokens.subspan(begin, std::min(kBlock, tokens.size() - begin));
      uint32_t largest = 0;
      for (const auto token : block) largest = std::max<uint32_t>(largest, token);
      if (largest < limit) continue;
      const auto at = std::find_if(block.begin(), block.end(), [&](auto t) { return t >= limit; });
      return static_cast<int64_t>(begin) + (at - block.begin());
    }
    return std::nullopt;
  });
}

}  // namespace snug

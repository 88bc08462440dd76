#include "data/token_stream.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "base/units.h"
#include "data/text_files.h"
#include "formats/file_reader.h"
#include "formats/token_file.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

// --- text ---------------------------------------------------------------------------------------

// Bytes as tokens: of one file, or of a directory's with a zero byte between two. A file is opened
// when it is read, for a directory may hold more of them than a process may open.
class TextStream : public TokenStream {
 public:
  TextStream(fs::path path, const std::vector<TextFile>& files) : path_(std::move(path)) {
    int64_t end = -1;
    for (const TextFile& file : files) {
      end += 1 + file.size;
      files_.push_back({file, end});
    }
  }

  // A model of fewer than 256 tokens may still suit a text of few letters.
  void check_vocabulary(int64_t V) const {
    if (V > std::numeric_limits<uint8_t>::max()) return;
    for (const Placed& file : files_) {
      FileReader(file.path).each_block(0, [&](int64_t begin, std::span<const std::byte> block) {
        const auto at = std::find_if(block.begin(), block.end(),
                                     [&](std::byte b) { return std::to_integer<int64_t>(b) >= V; });
        if (at == block.end()) return true;
        throw bad_input("{}: token {} at position {} is beyond the vocabulary of {}",
                        path_.string(), std::to_integer<int>(*at),
                        file.end - file.size + begin + (at - block.begin()), V)
            .hint("text is read one byte per token: the model needs a vocabulary of 256 or more");
      });
    }
  }

  int64_t size() const override { return files_.back().end; }
  std::string text() const override {
    return fmt::format("{} ({} file{}, {} bytes of text, one token per byte)", path_.string(),
                       format_exact(static_cast<int64_t>(files_.size())),
                       files_.size() == 1 ? "" : "s", format_exact(size()));
  }
  void copy(int64_t begin, std::span<int32_t> out) const override {
    auto file = std::ranges::lower_bound(files_, begin, {}, &Placed::end);
    while (!out.empty()) {
      const int64_t left = file->end - begin;  // 0: only the separator
      const auto here = static_cast<size_t>(std::min(left, static_cast<int64_t>(out.size())));
      if (here > 0) copy_of(*file, file->size - left, out.first(here));
      begin += static_cast<int64_t>(here);
      out = out.subspan(here);
      if (out.empty()) return;
      out[0] = 0;
      ++begin;
      ++file;
      out = out.subspan(1);
    }
  }

 private:
  struct Placed : TextFile {
    int64_t end = 0;  // in the stream, before the zero byte that separates it from the next
  };
  static void copy_of(const TextFile& from, int64_t at, std::span<int32_t> out) {
    const FileReader file = open_unchanged(from);
    std::array<std::byte, 16384> buffer;
    while (!out.empty()) {
      const auto piece = std::span(buffer).first(std::min(buffer.size(), out.size()));
      file.read(at, piece);
      std::ranges::transform(piece, out.begin(),
                             [](std::byte b) { return static_cast<int32_t>(b); });
      at += static_cast<int64_t>(piece.size());
      out = out.subspan(piece.size());
    }
  }

  fs::path path_;
  std::vector<Placed> files_;  // at least one
};

// --- token files --------------------------------------------------------------------------------

// Token files one after another.
class TokenFiles : public TokenStream {
 public:
  TokenFiles(fs::path path, std::vector<TokenFile> files)
      : path_(std::move(path)), files_(std::move(files)) {
    for (const TokenFile& file : files_) {
      ends_.push_back(checked_add(size(), file.size(), "the number of tokens"));
    }
  }

  int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  std::string text() const override {
    return fmt::format("{} ({} {} file{}, {} tokens)", path_.string(),
                       format_exact(static_cast<int64_t>(files_.size())), files_[0].format(),
                       files_.size() == 1 ? "" : "s", format_exact(size()));
  }
  void copy(int64_t begin, std::span<int32_t> out) const override {
    each_part(begin, out, [](const TokenFile& file, int64_t at, std::span<int32_t> part) {
      file.copy(at, part);
    });
  }
  bool masked() const override { return std::ranges::any_of(files_, &TokenFile::masked); }
  void hide_masked(int64_t begin, std::span<int32_t> tokens, int32_t hidden) const override {
    each_part(begin, tokens, [&](const TokenFile& file, int64_t at, std::span<int32_t> part) {
      file.hide_masked(at, part, hidden);
    });
  }

 private:
  // Calls visit(file, where it begins there, part) for the part of `tokens` in each file.
  template <typename Visit>
  void each_part(int64_t begin, std::span<int32_t> tokens, const Visit& visit) const {
    auto at =
        static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), begin) - ends_.begin());
    for (; !tokens.empty(); ++at) {
      const int64_t here = std::min(ends_[at] - begin, static_cast<int64_t>(tokens.size()));
      visit(files_[at], files_[at].size() - (ends_[at] - begin),
            tokens.first(static_cast<size_t>(here)));
      begin += here;
      tokens = tokens.subspan(static_cast<size_t>(here));
    }
  }

  fs::path path_;  // as given: the one file, or the directory of them all
  std::vector<TokenFile> files_;
  std::vector<int64_t> ends_;  // of each file, in tokens of the stream
};

TokenFile open_checked(const fs::path& path, const TokenSource& source) {
  constexpr int64_t kLimit = std::numeric_limits<int32_t>::max();  // tokens are int32 in a program
  const int64_t V = source.V;
  TokenFile file = TokenFile::open(path, {.token_bytes = source.token_bytes});
  if (const auto at = file.find_at_least(static_cast<uint32_t>(std::min(V, kLimit)))) {
    throw bad_input("{}: token {} at position {} is beyond the vocabulary of {}", path.string(),
                    file.token(*at), *at, V)
        .hint("the file was tokenized for another model");
  }
  return file;
}

std::vector<fs::path> token_files_in(const fs::path& directory) {
  std::vector<fs::path> files;
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(directory, failure)) {
    if (entry.path().extension() == ".bin" && !is_hidden(entry.path()))
      files.push_back(entry.path());
  }
  if (failure) throw bad_input("cannot list {}: {}", directory.string(), failure.message());
  std::sort(files.begin(), files.end());
  const auto is_training = [](const fs::path& path) {
    return path.filename().string().find("train") != std::string::npos;
  };
  if (std::any_of(files.begin(), files.end(), is_training)) {
    std::erase_if(files, [&](const fs::path& path) { return !is_training(path); });
  }
  return files;
}

// None where it is text.
std::vector<fs::path> token_files_of(const fs::path& path) {
  if (fs::is_directory(path)) return token_files_in(path);
  return is_token_file(path) ? std::vector<fs::path>{path} : std::vector<fs::path>{};
}

std::unique_ptr<TokenStream> open_token_files(const fs::path& given,
                                              const std::vector<fs::path>& paths,
                                              const TokenSource& source) {
  std::vector<TokenFile> files;
  for (const fs::path& path : paths) files.push_back(open_checked(path, source));
  return std::make_unique<TokenFiles>(given, std::move(files));
}

// --- synthetic ----------------------------------------------------------------------------------

class SyntheticTokens : public TokenStream {
 public:
  SyntheticTokens(uint64_t seed, int64_t V)
      : key_(random_key(seed, 0, hash_name("synthetic tokens"))), V_(static_cast<uint64_t>(V)) {}

  int64_t size() const override { return int64_t{1} << 48; }
  std::string text() const override { return fmt::format("synthetic tokens below {}", V_); }
  void copy(int64_t begin, std::span<int32_t> out) const override {
    for (size_t i = 0; i < out.size(); ++i) {
      const uint64_t at = static_cast<uint64_t>(begin) + i;
      // The cube of a uniform number, in whole numbers only: the same on every machine.
      const uint64_t u = philox(key_, at / 4)[at % 4];
      const uint64_t cube = ((u * u) >> 32) * u >> 32;
      out[i] = static_cast<int32_t>(cube * V_ >> 32);
    }
  }

 private:
  Key key_;
  uint64_t V_;
};

}  // namespace

bool holds_text(const fs::path& path) { return token_files_of(path).empty(); }

std::unique_ptr<TokenStream> open_tokens(const fs::path& path, const TokenSource& source) {
  const std::vector<fs::path> token_files = token_files_of(path);
  if (!token_files.empty()) return open_token_files(path, token_files, source);

  if (source.token_bytes > 0)
    throw usage_error("--token-bytes {}: {} is text, not a token file", source.token_bytes,
                      path.string());
  auto text = std::make_unique<TextStream>(path, text_files(path));
  if (source.has_tokenizer) {
    throw usage_error("{} is text, and the model has a tokenizer, but no tokenizer.json",
                      path.string())
        .hint(
            "AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR) of transformers writes one; "
            "or give a file of tokens (.bin of nanoGPT, llm.c or LLM.Q), or say --bytes");
  }
  text->check_vocabulary(source.V);
  return text;
}

std::unique_ptr<TokenStream> synthetic_tokens(uint64_t seed, int64_t V) {
  return std::make_unique<SyntheticTokens>(seed, V);
}

}  // namespace snug

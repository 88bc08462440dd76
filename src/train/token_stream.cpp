#include "train/token_stream.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "base/units.h"
#include "formats/mapped_file.h"
#include "formats/token_file.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

// --- text ---------------------------------------------------------------------------------------

// Bytes as tokens: of one mapped file, or of a directory's files read once.
class TextStream : public TokenStream {
 public:
  explicit TextStream(MappedFile file)
      : path_(file.path()), files_(1), mapped_(std::move(file)), bytes_(mapped_->bytes()) {}
  TextStream(fs::path directory, std::string content, int64_t files)
      : path_(std::move(directory)),
        files_(files),
        content_(std::move(content)),
        bytes_(std::as_bytes(std::span(content_))) {}
  TextStream(const TextStream&) = delete;
  TextStream& operator=(const TextStream&) = delete;

  // A model of fewer than 256 tokens may still suit a text of few letters.
  void check_vocabulary(int64_t V) const {
    if (V > std::numeric_limits<uint8_t>::max()) return;
    const auto at = std::find_if(bytes_.begin(), bytes_.end(),
                                 [&](std::byte b) { return std::to_integer<int64_t>(b) >= V; });
    if (at == bytes_.end()) return;
    throw bad_input("{}: token {} at position {} is beyond the vocabulary of {}", path_.string(),
                    std::to_integer<int>(*at), at - bytes_.begin(), V)
        .hint("text is read one byte per token: the model needs a vocabulary of 256 or more");
  }

  int64_t size() const override { return static_cast<int64_t>(bytes_.size()); }
  std::string text() const override {
    return fmt::format("{} ({} file{}, {} bytes of text, one token per byte)", path_.string(),
                       format_exact(files_), files_ == 1 ? "" : "s", format_exact(size()));
  }
  void copy(int64_t begin, std::span<int32_t> out) const override {
    const auto from = bytes_.subspan(static_cast<size_t>(begin), out.size());
    std::transform(from.begin(), from.end(), out.begin(),
                   [](std::byte b) { return static_cast<int32_t>(b); });
  }

 private:
  fs::path path_;
  int64_t files_;
  std::optional<MappedFile> mapped_;
  std::string content_;
  std::span<const std::byte> bytes_;
};

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

// Regular files below a directory, by path, without hidden ones and hidden directories.
std::vector<fs::path> files_below(const fs::path& directory) {
  std::vector<fs::path> files;
  std::error_code failure;
  fs::recursive_directory_iterator at(directory, fs::directory_options::skip_permission_denied,
                                      failure);
  for (; !failure && at != fs::recursive_directory_iterator(); at.increment(failure)) {
    if (is_hidden(at->path())) {
      at.disable_recursion_pending();
    } else if (std::error_code is_gone; at->is_regular_file(is_gone)) {
      files.push_back(at->path());
    }
  }
  if (failure) throw bad_input("cannot list {}: {}", directory.string(), failure.message());
  std::sort(files.begin(), files.end());
  return files;
}

std::unique_ptr<TextStream> open_text_directory(const fs::path& directory) {
  std::string content;
  int64_t files = 0;
  for (const fs::path& path : files_below(directory)) {
    const MappedFile file(path);
    const std::string_view bytes(reinterpret_cast<const char*>(file.bytes().data()),
                                 file.bytes().size());
    if (bytes.empty() || bytes.find('\0') != std::string_view::npos) continue;
    if (files++ > 0) content += '\0';
    content += bytes;
  }
  if (files == 0) throw bad_input("{} holds no files of text", directory.string());
  return std::make_unique<TextStream>(directory, std::move(content), files);
}

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
    auto at =
        static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), begin) - ends_.begin());
    for (; !out.empty(); ++at) {
      const int64_t here = std::min(ends_[at] - begin, static_cast<int64_t>(out.size()));
      files_[at].copy(files_[at].size() - (ends_[at] - begin),
                      out.first(static_cast<size_t>(here)));
      begin += here;
      out = out.subspan(static_cast<size_t>(here));
    }
  }

 private:
  fs::path path_;  // as given: the one file, or the directory of them all
  std::vector<TokenFile> files_;
  std::vector<int64_t> ends_;  // of each file, in tokens of the stream
};

TokenFile open_checked(const fs::path& path, int64_t V) {
  constexpr int64_t kLimit = std::numeric_limits<int32_t>::max();  // tokens are int32 in a program
  TokenFile file = TokenFile::open(path);
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

std::unique_ptr<TokenStream> open_token_files(const fs::path& given,
                                              const std::vector<fs::path>& paths, int64_t V) {
  std::vector<TokenFile> files;
  for (const fs::path& path : paths) files.push_back(open_checked(path, V));
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

std::unique_ptr<TokenStream> open_tokens(const fs::path& path, int64_t V) {
  const bool is_directory = fs::is_directory(path);
  std::vector<fs::path> token_files;
  if (is_directory) token_files = token_files_in(path);
  if (!is_directory && is_token_file(path)) token_files = {path};
  if (!token_files.empty()) return open_token_files(path, token_files, V);

  auto text =
      is_directory ? open_text_directory(path) : std::make_unique<TextStream>(MappedFile(path));
  if (text->size() == 0) throw bad_input("{} is empty", path.string());
  text->check_vocabulary(V);
  return text;
}

std::unique_ptr<TokenStream> synthetic_tokens(uint64_t seed, int64_t V) {
  return std::make_unique<SyntheticTokens>(seed, V);
}

}  // namespace snug

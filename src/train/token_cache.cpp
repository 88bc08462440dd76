#include "train/token_cache.h"

#include <array>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "formats/token_file_writer.h"
#include "train/model_tokenizer.h"
#include "train/text_files.h"
#include "train/tokenize_text.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

// To be raised when the same text and tokenizer give other tokens than before.
constexpr std::string_view kCacheVersion = "1";

std::string key_of(const std::vector<TextFile>& files, const ModelTokenizer& model) {
  Checksum sum;
  sum.add(kCacheVersion);
  sum.add(model.checksum);
  sum.add(fmt::format(" {}", model.end_of_text.value_or(kNoToken)));
  for (const TextFile& file : files) {
    sum.add(fmt::format(" {} ", file.size));
    open_unchanged(file).each_block(0, [&](int64_t, std::span<const std::byte> block) {
      sum.add(block);
      return true;
    });
  }
  return sum.text();
}

// "docs" of "docs/" and of "/data/docs".
fs::path without_slash(const fs::path& data) {
  const fs::path path = fs::absolute(data).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

fs::path directory_of(const TokenCacheQuestion& q) {
  if (!q.directory.empty()) return q.directory;
  const fs::path parent = q.data.has_filename() ? q.data.parent_path() : q.data / "..";
  return parent / ".snug-tokens";
}

void make_directory(const fs::path& directory) {
  std::error_code failure;
  fs::create_directories(directory, failure);
  if (!failure) return;
  throw bad_input("cannot make {} for tokens: {}", directory.string(), failure.message())
      .hint("--cache DIR puts them elsewhere");
}

void write_tokens(const fs::path& path, const std::vector<TextFile>& files,
                  const ModelTokenizer& model) {
  TokenFileWriter out(path, model.tokenizer.vocabulary());
  tokenize_text(
      files, model.tokenizer, require_end_of_text(model, files.size()), out,
      [](const TokenizeProgress& p) {
        show_status(fmt::format("tokenizing: {} of {} bytes, {} tokens", format_exact(p.bytes),
                                format_exact(p.all_bytes), format_exact(p.tokens)));
      });
  out.commit();
}

}  // namespace

fs::path cached_tokens(const TokenCacheQuestion& q) {
  const ModelTokenizer model = open_model_tokenizer(q.model);
  require_rows(model, q.V);
  const std::vector<TextFile> files = text_files(q.data);
  const fs::path directory = directory_of(q);
  const std::string name =
      fmt::format("{}-{}.bin", without_slash(q.data).filename().string(), key_of(files, model));
  std::error_code ignored;
  if (!fs::exists(directory / name, ignored)) {
    make_directory(directory);
    write_tokens(directory / name, files, model);
  }
  return directory / name;
}

}  // namespace snug

#include "data/token_cache.h"

#include <string>
#include <vector>

#include "base/checksum.h"
#include "base/error.h"
#include "base/notes.h"
#include "base/units.h"
#include "data/cache_file.h"
#include "data/model_tokenizer.h"
#include "data/text_files.h"
#include "data/tokenize_text.h"
#include "formats/token_file_writer.h"

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
  add_content(sum, files);
  return sum.text();
}

void write_tokens(const fs::path& path, const std::vector<TextFile>& files,
                  const ModelTokenizer& model) {
  TokenFileWriter out(path, model.tokenizer.vocabulary());
  tokenize_text(
      files, model.tokenizer, require_end_of_text(model, files.size()), out,
      [](const TokenizeProgress& p) {
        note_status(fmt::format("tokenizing: {} of {} bytes, {} tokens", format_exact(p.bytes),
                                format_exact(p.all_bytes), format_exact(p.tokens)));
      });
  out.commit();
}

}  // namespace

fs::path cached_tokens(const TokenCacheQuestion& q) {
  const ModelTokenizer model = open_model_tokenizer(q.model);
  require_rows(model, q.V);
  const std::vector<TextFile> files = text_files(q.data);
  const CacheFile cache{.data = q.data, .directory = q.directory, .key = key_of(files, model)};
  fs::path path = cache.path(".bin");
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    cache.make_directory();
    write_tokens(path, files, model);
  }
  return path;
}

}  // namespace snug

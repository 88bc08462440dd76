#include "data/sample_cache.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/notes.h"
#include "base/units.h"
#include "data/cache_file.h"
#include "data/token_stream.h"
#include "data/tokenize_samples.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

// To be raised when the same lines and tokenizer give other samples than before.
constexpr std::string_view kCacheOfSamples = "samples 1 ";

bool has_lines(const fs::path& path) {
  return path.extension() == ".jsonl" || path.extension() == ".ndjson";
}

// None where the file is not as we write it: it is made anew.
std::optional<SampleLines> lines_of(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  return SampleFile::open(path).lines();
}

void write_samples(const fs::path& path, std::span<const TextFile> files,
                   const SampleFormat& format, int64_t skip_bad) {
  SampleFileWriter out(path, format.vocabulary());
  out.commit(tokenize_samples(files, format, skip_bad, out, [](const TokenizeProgress& p) {
    note_status(fmt::format("tokenizing: {} of {} bytes, {} tokens", format_exact(p.bytes),
                            format_exact(p.all_bytes), format_exact(p.tokens)));
  }));
}

}  // namespace

bool holds_jsonl(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return has_lines(path) || path.extension() == ".json";
  if (!holds_text(path)) return false;
  fs::recursive_directory_iterator at(path, fs::directory_options::skip_permission_denied, ignored);
  for (; !ignored && at != fs::recursive_directory_iterator(); at.increment(ignored)) {
    if (is_hidden(at->path()))
      at.disable_recursion_pending();
    else if (has_lines(at->path()))
      return true;
  }
  return false;
}

std::vector<TextFile> jsonl_files(const fs::path& path) {
  std::vector<TextFile> files = text_files(path);
  if (!fs::is_directory(path)) return files;
  std::erase_if(files, [](const TextFile& file) { return !has_lines(file.path); });
  if (files.empty()) throw bad_input("{}: its files of JSONL are empty", path.string());
  return files;
}

fs::path cached_samples(const SampleCacheQuestion& q) {
  std::optional<ModelTokenizer> model;
  if (!q.model.empty()) {
    model = open_model_tokenizer(q.model);
    require_rows(*model, q.V);
  }
  const SampleFormat format(model ? &*model : nullptr);
  const std::vector<TextFile> files = jsonl_files(q.data);
  Checksum sum;
  sum.add(kCacheOfSamples);
  sum.add(format.description());
  add_content(sum, files);
  const CacheFile cache{.data = q.data, .directory = q.directory, .key = sum.text()};
  fs::path path = cache.path(".samples");
  const std::optional<SampleLines> lines = lines_of(path);
  // Samples that were made when more bad lines were allowed are refused as those lines are.
  if (!lines || lines->bad > q.skip_bad) {
    cache.make_directory();
    write_samples(path, files, format, q.skip_bad);
  }
  return path;
}

}  // namespace snug

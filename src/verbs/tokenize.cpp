// `snug tokenize`: a text, a folder of texts, or JSONL, as the tokens of a model, in a file that
// train reads.
#include <chrono>
#include <filesystem>

#include "base/error.h"
#include "data/model_tokenizer.h"
#include "data/sample_cache.h"
#include "data/text_files.h"
#include "data/tokenize_samples.h"
#include "data/tokenize_text.h"
#include "formats/sample_file.h"
#include "formats/token_file_writer.h"
#include "snug/snug.h"

namespace snug {
namespace {

using Progress = std::function<void(const TokenizeProgress&)>;

void tokenize_documents(const TokenizeOptions& o, const ModelTokenizer& model,
                        const Progress& progress, TokenizeReport& report) {
  if (o.skip_bad > 0)
    throw usage_error("--skip-bad {} is for JSONL, and {} is text", o.skip_bad, o.data);
  const std::vector<TextFile> files = text_files(o.data);
  const int32_t end_of_text = require_end_of_text(model, files.size());
  TokenFileWriter out(o.out, model.tokenizer.vocabulary());
  tokenize_text(files, model.tokenizer, end_of_text, out, progress);
  if (out.count() == 0) throw bad_input("{} has no tokens", o.data);
  out.commit();
  report.tokens = out.count();
  report.documents = static_cast<int64_t>(files.size());
}

void tokenize_jsonl(const TokenizeOptions& o, const ModelTokenizer& model, const Progress& progress,
                    TokenizeReport& report) {
  const SampleFormat format(&model);
  SampleFileWriter out(o.out, format.vocabulary());
  const SampleLines lines =
      tokenize_samples(jsonl_files(o.data), format, o.skip_bad, out, progress);
  out.commit(lines);
  report.tokens = out.tokens();
  report.documents = out.samples();
  report.empty = lines.empty;
  report.bad = lines.bad;
}

}  // namespace

TokenizeReport tokenize(const TokenizeOptions& o,
                        const std::function<void(double done, int64_t tokens)>& progress) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (!o.overwrite && fs::exists(o.out, ignored))
    throw usage_error("{} exists", o.out)
        .hint("--overwrite replaces it when the new one is complete");
  const ModelTokenizer model = open_model_tokenizer(o.model, o.end_of_text);
  const auto start = std::chrono::steady_clock::now();
  TokenizeReport report{.vocabulary = model.tokenizer.vocabulary(), .out = o.out};
  const auto tell = [&](const TokenizeProgress& p) {
    report.bytes = p.bytes;
    if (progress)
      progress(static_cast<double>(p.bytes) / static_cast<double>(p.all_bytes), p.tokens);
  };
  if (holds_jsonl(o.data))
    tokenize_jsonl(o, model, tell, report);
  else
    tokenize_documents(o, model, tell, report);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace snug

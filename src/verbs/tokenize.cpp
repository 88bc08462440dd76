// `snug tokenize`: a text, or a folder of texts, as the tokens of a model, in a file that train reads.
#include <chrono>
#include <filesystem>

#include "base/error.h"
#include "formats/token_file_writer.h"
#include "snug/snug.h"
#include "train/model_tokenizer.h"
#include "train/text_files.h"
#include "train/tokenize_text.h"

namespace snug {

TokenizeReport tokenize(const TokenizeOptions& o,
                        const std::function<void(double done, int64_t tokens)>& progress) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (!o.overwrite && fs::exists(o.out, ignored))
    throw usage_error("{} exists", o.out)
        .hint("--overwrite replaces it when the new one is complete");
  const ModelTokenizer model = open_model_tokenizer(o.model, o.end_of_text);
  const std::vector<TextFile> files = text_files(o.data);
  const int32_t end_of_text = require_end_of_text(model, files.size());
  const auto start = std::chrono::steady_clock::now();
  TokenFileWriter out(o.out, model.tokenizer.vocabulary());
  int64_t bytes = 0;
  tokenize_text(files, model.tokenizer, end_of_text, out, [&](const TokenizeProgress& p) {
    bytes = p.bytes;
    if (progress)
      progress(static_cast<double>(p.bytes) / static_cast<double>(p.all_bytes), p.tokens);
  });
  if (out.count() == 0) throw bad_input("{} has no tokens", o.data);
  out.commit();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return {.tokens = out.count(),
          .documents = static_cast<int64_t>(files.size()),
          .bytes = bytes,
          .vocabulary = model.tokenizer.vocabulary(),
          .seconds = took.count(),
          .out = o.out};
}

}  // namespace snug

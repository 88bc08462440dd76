#include "data/open_rows.h"

#include "base/error.h"
#include "data/model_tokenizer.h"
#include "data/sample_cache.h"
#include "data/sample_rows.h"
#include "data/token_cache.h"
#include "data/windows.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

bool has_tokenizer_json(const Resolved& run) {
  std::error_code ignored;
  return fs::exists(run.model.source_dir() / kTokenizerFile, ignored);
}

bool uses_tokenizer(const Resolved& run) { return run.model.has_tokenizer() && !run.options.bytes; }

std::shared_ptr<const TokenStream> open_stream(const std::string& source, const Resolved& run) {
  const int64_t V = run.model.config().V;
  if (source == "synthetic") return synthetic_tokens(static_cast<uint64_t>(run.options.seed), V);
  const TokenSource tokens{
      .V = V, .token_bytes = run.options.token_bytes, .has_tokenizer = uses_tokenizer(run)};
  if (!tokens.has_tokenizer || !has_tokenizer_json(run) || !holds_text(source))
    return open_tokens(source, tokens);
  return open_tokens(cached_tokens({.data = source,
                                    .model = run.model.source_dir(),
                                    .V = V,
                                    .directory = run.options.cache}),
                     {.V = V});
}

bool holds_samples(const std::string& source) {
  std::error_code ignored;
  if (source == "synthetic") return false;
  if (holds_jsonl(source)) return true;
  return fs::is_regular_file(source, ignored) && is_sample_file(source);
}

fs::path sample_file_of(const std::string& source, const Resolved& run) {
  if (!holds_jsonl(source)) return source;
  if (uses_tokenizer(run) && !has_tokenizer_json(run)) {
    throw usage_error("{} is text, and the model has a tokenizer, but no tokenizer.json", source)
        .hint("AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR) of transformers writes one");
  }
  return cached_samples({.data = source,
                         .model = uses_tokenizer(run) ? run.model.source_dir() : fs::path(),
                         .V = run.model.config().V,
                         .skip_bad = run.options.skip_bad,
                         .directory = run.options.cache});
}

// Options that mean nothing where neither the data nor what is held out has samples, or a mask.
void refuse_sample_options(const std::string& source, const Options& o, bool masked) {
  const Options plain;
  if (!o.eval_data.empty() && holds_samples(o.eval_data) && !o.pack) return;
  const auto refuse = [&](const std::string& option) {
    throw usage_error("{} is for samples, and --data {} has none", option, source)
        .hint("samples are lines of JSONL: a file called .jsonl, or a directory with such files");
  };
  if (o.pack && source != "synthetic") refuse("--pack");
  if (o.loss_on != plain.loss_on && !masked) refuse("--loss-on " + print_setting(o.loss_on));
  if (o.long_samples != plain.long_samples) refuse("--long " + print_setting(o.long_samples));
  if (o.skip_bad != plain.skip_bad) refuse(fmt::format("--skip-bad {}", o.skip_bad));
}

}  // namespace

std::shared_ptr<const Rows> open_rows(const std::string& source, const Resolved& run) {
  const Options& o = run.options;
  if (!holds_samples(source)) {
    const std::shared_ptr<const TokenStream> stream = open_stream(source, run);
    if (source == o.data) refuse_sample_options(source, o, stream->masked());
    return std::make_shared<Windows>(stream, run.build.seq, o.loss_on == LossOn::all);
  }
  if (!run.model.config().causal) {
    throw usage_error(
        "{} holds samples, and model '{}' sees whole sequences: padding is not hidden "
        "from it",
        source, o.model)
        .hint("give it plain text");
  }
  return std::make_shared<SampleRows>(SampleFile::open(sample_file_of(source, run)), source,
                                      SampleRowOptions{.T = run.build.seq,
                                                       .pack = o.pack,
                                                       .learn_all = o.loss_on == LossOn::all,
                                                       .longer = o.long_samples,
                                                       .V = run.model.config().V});
}

}  // namespace snug

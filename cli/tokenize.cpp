// snug tokenize MODEL --data X -o tokens.bin: text as the tokens of a model.
#include "arguments.h"
#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "report/tokenize_report.h"
#include "snug/snug.h"
#include "verbs.h"

namespace snug::cli {

int tokenize_verb(const std::vector<std::string>& arguments) {
  CLI::App app("text as the tokens of a model, in a file that train reads", "snug tokenize");
  TokenizeOptions o;
  bool json = false;
  app.add_option("model", o.model, "a Hugging Face directory, or a tokenizer.json");
  app.add_option("--data", o.data,
                 "a file of text, or a directory of them: each is a document; or JSONL");
  app.add_option("-o,--out", o.out, "the token file to write");
  app.add_option("--eot", o.end_of_text,
                 "the token between two documents (not given: the tokenizer's own end of text)");
  app.add_option("--skip-bad", o.skip_bad,
                 "bad lines of JSONL that are passed over before it is an error");
  app.add_flag("--overwrite", o.overwrite, "--out may exist, and is replaced");
  app.add_flag("--json", json, "results as JSON on stdout");
  if (!parse(app, arguments)) return 0;
  for (const auto& [value, name] :
       {std::pair{&o.model, "MODEL"}, std::pair{&o.data, "--data"}, std::pair{&o.out, "-o FILE"}})
    if (value->empty()) throw usage_error("snug tokenize needs {}", name).hint(help_hint(app));
  show_status("reading the tokenizer ...");
  const TokenizeReport report = tokenize(o, [](double done, int64_t tokens) {
    show_status(fmt::format("tokenizing: {:.0f} %, {} tokens", 100 * done, format_exact(tokens)));
  });
  print_text(json ? tokenize_json(report) + "\n" : tokenize_line(report) + "\n");
  return 0;
}

}  // namespace snug::cli

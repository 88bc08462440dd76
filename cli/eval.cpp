// snug eval MODEL --data X: the loss over all of the data, and the perplexity.
#include "arguments.h"
#include "base/log.h"
#include "report/eval_report.h"
#include "snug/snug.h"
#include "verbs.h"

namespace snug::cli {

int eval_verb(const std::vector<std::string>& arguments) {
  CLI::App app("loss and perplexity of a model over data, by the forward pass alone", "snug eval");
  Options options;
  add_some_options(app, options, Verbs::eval);
  app.get_option("--data")->description(
      "text file or directory (bytes, or the tokens of the model's tokenizer.json), or token file");
  app.get_option("--batch")->description(
      "sequences at a time (not given: 8, halved until it fits the budget)");
  app.get_option("--seed")->description("of what is hidden from a masked language model");
  if (!parse(app, arguments)) return 0;
  options.given = names_given(app);
  const EvalReport report =
      evaluate(options, {.planned = [](const PlanReport& plan) { log_text(plan.table); },
                         .said = [](const std::string& line) { log_line(line); },
                         .doing = [](const std::string& what) { show_status(what + " ..."); },
                         .evaluated = [](const EvalReport& r) { show_status(eval_progress(r)); }});
  print("{}\n", options.json ? eval_json(report) : eval_text(report));
  return 0;
}

}  // namespace snug::cli

// snug sample MODEL --prompt TEXT: generates text from a prompt, printed as it is generated.
#include "arguments.h"
#include "base/error.h"
#include "base/log.h"
#include "base/number.h"
#include "base/text.h"
#include "report/sample_report.h"
#include "snug/snug.h"
#include "verbs.h"

namespace snug::cli {
namespace {

// "1,2,3"
std::vector<int32_t> ids_of(const std::string& text) {
  std::vector<int32_t> ids;
  for (const std::string& word : split(text, ',')) {
    int32_t id = 0;
    if (!read_number(trim(word), id))
      throw usage_error("--prompt-ids '{}': '{}' is not a token", text, word)
          .hint("numbers with commas between them: --prompt-ids 1,2,3");
    ids.push_back(id);
  }
  return ids;
}

// A model may write anything: on a terminal its control characters move no cursor.
std::string shown(const std::string& text) {
  if (!stdout_is_terminal()) return text;
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool moves = (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f;
    out += moves ? printable(std::string_view(&c, 1)) : std::string(1, c);
  }
  return out;
}

}  // namespace

int sample_verb(const std::vector<std::string>& arguments) {
  CLI::App app("generates text from a prompt, token by token", "snug sample");
  SampleOptions o;
  std::string ids;
  add_some_options(app, o.run, Verbs::sample);
  app.get_option("--seed")->description("of the tokens that are drawn");
  app.add_option("--prompt", o.prompt, "the text to continue");
  app.add_option("--prompt-ids", ids, "the same as tokens: 1,2,3");
  add_number(app, "--max-tokens", o.max_tokens, "tokens to generate at most");
  add_number(app, "--temperature", o.temperature,
             "logits are divided by it (0: the most probable token, always)");
  add_number(app, "--top-p", o.top_p,
             "draw from the most probable tokens that together have this probability");
  add_number(app, "--top-k", o.top_k, "draw from so many of the most probable tokens (0: all)");
  app.add_option("--stop", o.stops, "a text that ends it; may be given several times")
      ->allow_extra_args(false);
  if (!parse(app, arguments)) return 0;
  o.run.given = names_given(app);
  if (app.count("--prompt-ids") > 0) o.prompt_ids = ids_of(ids);
  const bool streams = !o.run.json;
  const SampleReport report =
      sample(o, {.planned = [](const PlanReport& plan) { log_text(plan.table); },
                 .said = [](const std::string& line) { log_line(line); },
                 .doing = [](const std::string& what) { show_status(what + " ..."); },
                 .wrote =
                     [&](const std::string& text) {
                       if (!streams) return;
                       clear_status();
                       print_text(shown(text));
                       flush_results();
                     }});
  print_text(streams ? "\n" : sample_json(report) + "\n");
  flush_results();
  log_line(sample_line(report));
  return 0;
}

}  // namespace snug::cli

// `snug sample`: checks what was asked, plans, loads, and generates text from a prompt.
#include <algorithm>

#include "base/error.h"
#include "generate/forward_only.h"
#include "generate/sampling.h"
#include "generate/token_choice.h"
#include "report/eval_report.h"
#include "settings/option_checks.h"
#include "snug/snug.h"

namespace snug {
namespace {

void check(const SampleOptions& o) {
  if (o.prompt.empty() && !o.prompt_ids)
    throw usage_error("snug sample needs --prompt TEXT, or --prompt-ids 1,2,3");
  if (!o.prompt.empty() && o.prompt_ids)
    throw usage_error("--prompt and --prompt-ids: a sequence begins with one of them");
  if (o.prompt_ids && o.prompt_ids->empty()) throw usage_error("--prompt-ids is empty");
  require_at_least(1, o.max_tokens, "max-tokens");
  check(TokenChoice{.temperature = o.temperature, .top_p = o.top_p, .top_k = o.top_k});
  if (std::ranges::find(o.stops, "") != o.stops.end()) throw usage_error("--stop is empty");
}

}  // namespace

SampleReport sample(const SampleOptions& o, const SampleObserver& observer) {
  check(o);
  const Resolved run = resolve_forward(o.run, "snug sample");
  const SampleWords words(run.model, o.run.bytes);
  if (!o.stops.empty() && !words.has_text())
    throw usage_error("--stop is text, and the tokens of '{}' are none", run.model.config().name);
  std::vector<int32_t> prompt = o.prompt_ids ? *o.prompt_ids : words.encode(o.prompt);
  words.check(prompt);
  const Lengths lengths = lengths_of(o, static_cast<int64_t>(prompt.size()), run.model, observer);
  if (observer.doing) observer.doing("planning");
  const PlannedRun planned = plan_generation(run, lengths);
  require_generation_fit(planned, lengths);
  if (observer.planned)
    observer.planned(forward_plan_report(planned, "sampling, " + lengths.text()));
  LoadedModel model(planned, observer.doing, observer.said);
  if (observer.doing) observer.doing("reading the prompt");
  return generate(o, words, observer, std::move(prompt), model.executor(), lengths.generated);
}

}  // namespace snug

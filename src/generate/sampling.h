// Generates text from a prompt, token by token, with keys and values in a planned cache.
//
//   const Lengths lengths = lengths_of(options, prompt.size(), run.model, observer);
//   const PlannedRun planned = plan_generation(run, lengths);
//   LoadedModel model(planned, observer.doing, observer.said);
//   generate(options, words, observer, prompt, model.executor(), lengths.generated);
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "generate/sample_words.h"
#include "runtime/executor.h"
#include "search/plan_run.h"
#include "snug/snug.h"

namespace snug {

// How long the sequence may become.
struct Lengths {
  int64_t prompt = 0, generated = 0;

  // The last token that is generated is not read any more.
  int64_t positions() const { return prompt + generated - 1; }
  int64_t prefill() const;  // tokens of the prompt that go through the layers together
  std::string text() const;
};

// Fewer than asked for where the model has no more positions, and says so. Throws a usage error for
// a prompt that is longer than these.
Lengths lengths_of(const SampleOptions& o, int64_t prompt, const Model& model,
                   const SampleObserver& observer);

PlannedRun plan_generation(const Resolved& run, const Lengths& lengths);
// Throws does_not_fit, with what would fit.
void require_generation_fit(const PlannedRun& planned, const Lengths& lengths);

// `executor` has what plan_generation planned, loaded.
SampleReport generate(const SampleOptions& o, const SampleWords& words,
                      const SampleObserver& observer, std::vector<int32_t> prompt,
                      Executor& executor, int64_t max_tokens);

}  // namespace snug

#include "generate/sampling.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/units.h"
#include "compile/compile.h"
#include "generate/forward_only.h"
#include "generate/generator.h"
#include "generate/token_choice.h"

namespace snug {
namespace {

using Clock = std::chrono::steady_clock;

// Tokens of the prompt that go through the layers together: enough for fast matmuls, and their
// activations are few bytes compared with the weights.
constexpr int64_t kPrefillTokens = 256;

// One generation: its tokens, and when it ends.
class Sampling {
 public:
  Sampling(const SampleOptions& o, const SampleWords& words, const SampleObserver& observer,
           std::vector<int32_t> prompt)
      : observer_(observer),
        words_(words),
        choice_{.temperature = o.temperature,
                .top_p = o.top_p,
                .top_k = o.top_k,
                .seed = static_cast<uint64_t>(o.run.seed)},
        stream_(words.stream(prompt)),
        stops_(o.stops) {
    report_.prompt_ids = std::move(prompt);
  }

  SampleReport run(Executor& executor, int64_t max_tokens) {
    Generator generator(executor);
    report_.planned_bytes = executor.planned_bytes();
    const auto start = Clock::now();
    std::span<const float> logits = generator.take(report_.prompt_ids);
    report_.prompt_seconds = std::chrono::duration<double>(Clock::now() - start).count();
    const auto begin = Clock::now();
    while (add(choose_token(logits, choice_, generator.position()), max_tokens))
      logits = generator.take(std::span(report_.ids).last(1));
    report_.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (stream_) write(stops_.add(stream_->finish()));
    write(stops_.finish());
    report_.peak_bytes = executor.measured_bytes();
    return std::move(report_);
  }

 private:
  // Whether generation continues.
  bool add(int32_t token, int64_t max_tokens) {
    if (words_.ends_text(token)) return end("end of text");
    report_.ids.push_back(token);
    if (stream_) {
      write(stops_.add(stream_->add(token)));
    } else if (observer_.wrote) {
      observer_.wrote(fmt::format("{}{}", report_.ids.size() > 1 ? " " : "", token));
    }
    if (stops_.found()) return end("stop text");
    if (static_cast<int64_t>(report_.ids.size()) == max_tokens) return end("max tokens");
    return true;
  }

  bool end(const char* by) {
    report_.ended_by = by;
    return false;
  }

  void write(const std::string& text) {
    report_.text += text;
    if (observer_.wrote && !text.empty()) observer_.wrote(text);
  }

  const SampleObserver& observer_;
  const SampleWords& words_;
  TokenChoice choice_;
  std::optional<TextStream> stream_;
  StopTexts stops_;
  SampleReport report_;
};

}  // namespace

// The last token of the prompt is decoded: its logits are wanted.
int64_t Lengths::prefill() const { return std::min(prompt - 1, kPrefillTokens); }

std::string Lengths::text() const {
  return fmt::format("a prompt of {} and {} more", counted(prompt, "token"), generated);
}

Lengths lengths_of(const SampleOptions& o, int64_t prompt, const Model& model,
                   const SampleObserver& observer) {
  const int64_t most = model.config().max_positions;
  if (prompt > most) {
    throw usage_error("the prompt has {} tokens, and '{}' has {} positions", format_exact(prompt),
                      model.config().name, format_exact(most))
        .hint("give a shorter prompt");
  }
  Lengths lengths{.prompt = prompt, .generated = o.max_tokens};
  const int64_t room = most - prompt + 1;
  if (lengths.generated > room) {
    lengths.generated = room;
    if (observer.said)
      observer.said(fmt::format("at most {} more: the model has {} positions",
                                counted(room, "token"), format_exact(most)));
  }
  return lengths;
}

PlannedRun plan_generation(const Resolved& run, const Lengths& lengths) {
  const CachedForwardBuilder forward = run.model.cached_forward(lengths.positions(), run.build);
  return planned_forward(
      run, compile_generation(run.model.config().name, forward, lengths.prefill(), run.recipe));
}

void require_generation_fit(const PlannedRun& planned, const Lengths& lengths) {
  const Recipe& recipe = planned.run.recipe;
  std::vector<Change> smaller;
  if (recipe.precision == Dtype::f32) smaller.push_back({{&Options::precision, ComputeType::bf16}});
  if (recipe.backend == Backend::cuda && !recipe.offload.moves(OffloadItem::params))
    smaller.push_back({{&Options::offload, on_host({OffloadItem::params})}});
  require_forward_fit(
      planned,
      {fmt::format("sampling from {} with {}", planned.run.model.config().name, lengths.text()),
       [&](const Resolved& run) { return plan_generation(run, lengths); }, smaller});
}

SampleReport generate(const SampleOptions& o, const SampleWords& words,
                      const SampleObserver& observer, std::vector<int32_t> prompt,
                      Executor& executor, int64_t max_tokens) {
  return Sampling(o, words, observer, std::move(prompt)).run(executor, max_tokens);
}

}  // namespace snug

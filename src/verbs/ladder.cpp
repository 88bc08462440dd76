// The ladder: the same short training again and again, with one technique changed at a time. Every
// rung is planned before the first one runs, so that whatever is refused is refused at once.
#include "base/median.h"
#include "base/text.h"
#include "base/units.h"
#include "ir/text.h"
#include "recipe/option_checks.h"
#include "recipe/with_flags.h"
#include "runtime/null_executor.h"
#include "search/plan_run.h"
#include "snug/snug.h"
#include "train/feeder.h"

namespace snug {
namespace {

constexpr const char* kBaseline =
    "--precision fp32 --master fp32 --grad-dtype auto --loss-scale auto --attention standard "
    "--loss whole --recompute none --compress none --optimizer adamw --state-dtype fp32";

// Lion's authors: a learning rate 3 to 10 times smaller than AdamW's.
constexpr double kLionLr = 0.2;
constexpr int64_t kMicroBatches = 4;

struct Technique {
  std::string name;
  std::string change;
  bool together = false;  // on the last rung too: what still saves bytes beside the others
};

std::vector<Technique> techniques(const Options& o) {
  std::vector<Technique> all{
      {"flash attention", "--attention flash", true},
      {"chunked attention", "--attention chunked"},
      {"chunked loss", "--loss chunked", true},
      {"recompute every layer", "--recompute full", true},
      {"recompute sqrt", "--recompute sqrt"},
      {"recompute attention", "--recompute attention"},
      {"bf16", "--precision bf16"},
      {"bf16 without master", "--precision bf16 --master none", true},
      {"fp16", "--precision fp16"},
      {"int8 activations", "--compress int8"},
      {"adamw8bit", "--optimizer adamw8bit", true},
      {"adam-mini", "--optimizer adam-mini"},
      {"lion", fmt::format("--optimizer lion --lr {:g}", o.lr * kLionLr)},
      {"bf16 state", "--state-dtype bf16"},
      {"update in backward", "--update-in-backward --clip 0", true},
  };
  if (o.batch % kMicroBatches == 0) {
    const int64_t batch = o.batch / kMicroBatches;
    const int64_t sequences = o.global_batch > 0 ? o.global_batch : o.batch * o.accum;
    all.push_back(
        {"micro-batches", fmt::format("--batch {} --accum {}", batch, ceil_div(sequences, batch))});
  }
  return all;
}

Options baseline_of(Options o) {
  if (!o.out.empty()) {
    throw usage_error("--out {}: ladder trains many times and keeps none of the models", o.out)
        .hint("`snug train` keeps one");
  }
  o.update_in_backward = false;
  if (o.accum == 0) o.accum = o.global_batch > 0 ? ceil_div(o.global_batch, o.batch) : 1;
  return with_flags(std::move(o), kBaseline);
}

// Runs f; an error of a rung above the baseline says which one.
template <typename F>
void in_rung(const Rung& rung, F&& f) {
  try {
    f();
  } catch (const Error& error) {
    if (rung.change == kBaseline) throw;
    throw Error(error.code(), fmt::format("{} ({}): {}", rung.name, rung.change, error.what()))
        .hint(error.hint());
  }
}

// Plans the rung; gives the planned program's text.
std::string plan_rung(Rung& rung, const Options& baseline) {
  std::string text;
  in_rung(rung, [&] {
    const Resolved run = resolve(with_flags(baseline, rung.change));
    const Plan plan = plan_run(run).plan;
    rung.planned_bytes = plan.module.arena_bytes[static_cast<size_t>(Space::device)];
    rung.scratch_is_a_cap = run.recipe.backend == Backend::cuda;
    rung.fits = !run.budget || rung.planned_bytes <= *run.budget;
    text = print(plan.module);
  });
  return text;
}

// A technique that leaves the program as it was means nothing for this model (attention, for an
// mlp) and has no rung.
std::vector<Rung> plan_rungs(const Options& baseline) {
  std::vector<Rung> rungs{{.name = "baseline", .change = kBaseline}};
  const std::string plain = plan_rung(rungs[0], baseline);
  std::vector<std::string> together;
  for (const Technique& technique : techniques(baseline)) {
    Rung rung{.name = technique.name, .change = technique.change};
    if (plan_rung(rung, baseline) == plain) continue;
    rungs.push_back(rung);
    if (technique.together) together.push_back(technique.change);
  }
  rungs.push_back({.name = "all together", .change = join(together, " ")});
  plan_rung(rungs.back(), baseline);
  return rungs;
}

// One training of its own. The first step, which also warms caches up, counts for the time only
// when there is no other.
void train_rung(Rung& rung, const Options& options) {
  std::vector<double> seconds;
  TrainObserver observer;
  observer.stepped = [&](const StepReport& r) {
    if (r.step == 2) seconds.clear();
    seconds.push_back(r.seconds);
    rung.measured_bytes = r.peak_bytes;
    rung.loss = r.loss;
    rung.skipped += r.skipped ? 1 : 0;
  };
  observer.evaluated = [&](int64_t, double loss) { rung.loss = loss; };
  train(options, observer);
  rung.step_seconds = median(std::move(seconds));
}

void measure(Rung& rung, const Options& options) {
  if (options.device == "null") {
    const NullRun followed = run_null(plan_run(resolve(options)).plan.module);
    rung.measured_bytes = followed.high_water[static_cast<size_t>(Space::device)];
    return;
  }
  try {
    train_rung(rung, options);
  } catch (const Error& error) {
    if (error.code() != ExitCode::does_not_fit) throw;
    rung.fits = false;  // in the machine's memory
  }
}

}  // namespace

LadderReport ladder(const Options& options, const LadderObserver& observer) {
  const Resolved asked = resolve(options);
  const Options baseline = baseline_of(options);
  Samples::for_training(asked);  // throws what every rung would
  LadderReport report{.sequences = asked.options.global_batch,
                      .seq = asked.options.seq,
                      .rungs = plan_rungs(baseline)};
  if (observer.planned) observer.planned(report);
  for (Rung& rung : report.rungs) {
    if (observer.started) observer.started(rung);
    if (rung.fits) in_rung(rung, [&] { measure(rung, with_flags(baseline, rung.change)); });
    if (observer.measured) observer.measured(rung);
  }
  return report;
}

}  // namespace snug

// The ladder: the same short training again and again, with one technique changed at a time. Every
// rung is planned before the first one runs, so that whatever is refused is refused at once.
#include "base/median.h"
#include "base/text.h"
#include "base/units.h"
#include "comm/job_place.h"
#include "data/samples.h"
#include "ir/text.h"
#include "machine/here.h"
#include "runtime/null_executor.h"
#include "search/plan_run.h"
#include "settings/option_checks.h"
#include "snug/snug.h"
#include "techniques/techniques.h"

namespace snug {
namespace {

constexpr const char* kBaseline = "baseline";

const Change& baseline_change() {
  static const Change plain{{&Options::precision, ComputeType::fp32},
                            {&Options::master, Master::fp32},
                            not_given(&Options::grad_dtype),
                            not_given(&Options::loss_scale),
                            {&Options::attention, AttentionChoice{ops::AttentionKind::standard}},
                            {&Options::loss, LossChoice{.chunked = false}},
                            {&Options::recompute, RecomputePolicy{}},
                            {&Options::compress, CompressKind::none},
                            {&Options::optimizer, OptimizerKind::adamw},
                            {&Options::state_dtype, StateType::fp32}};
  return plain;
}

constexpr int64_t kMicroBatches = 4;

struct Step {
  std::string name;
  Change change;
  bool together = false;  // on the last rung too: it still saves bytes together with the others
};

// The rows of the technique table that have a rung, and micro-batches.
std::vector<Step> steps_above(const Options& o) {
  std::vector<Step> all;
  for (const Technique& t : techniques()) {
    if (t.on_ladder == OnLadder::no) continue;
    all.push_back({std::string(t.name), t.change, t.on_ladder == OnLadder::together});
    if (t.lr_factor != 1) all.back().change += {{&Options::lr, as_shown(o.lr * t.lr_factor)}};
  }
  if (o.batch % kMicroBatches == 0) {
    const int64_t batch = o.batch / kMicroBatches;
    const int64_t sequences =
        o.global_batch > 0 ? o.global_batch : checked_mul(o.batch, o.accum, "sequences per step");
    all.push_back({"micro-batches",
                   {{&Options::batch, batch}, {&Options::accum, ceil_div(sequences, batch)}}});
  }
  return all;
}

// Ranks would have to connect anew for every rung.
void refuse_ranks(const Options& o) {
  const std::optional<JobPlace> place = job_place();
  const int64_t ranks = place ? place->ranks : ranks_of(o);
  if (ranks <= 1) return;
  throw usage_error("ladder over {} ranks: it trains in one process", ranks)
      .hint("`snug plan` and `snug train` take --ranks and the flags of a rung");
}

Options baseline_of(Options o) {
  if (!o.out.empty()) {
    throw usage_error("--out {}: ladder trains many times and keeps none of the models", o.out)
        .hint("`snug train` keeps one");
  }
  o.update_in_backward = false;
  if (o.accum == 0) o.accum = o.global_batch > 0 ? micro_batches_of(o.global_batch, o.batch) : 1;
  return changed(std::move(o), baseline_change());
}

// Runs f; an error of a rung above the baseline says which one.
template <typename F>
void in_rung(const Rung& rung, F&& f) {
  try {
    f();
  } catch (const Error& error) {
    if (rung.name == kBaseline) throw;
    throw Error(error.code(), fmt::format("{} ({}): {}", rung.name, rung.change, error.what()))
        .hint(error.hint());
  }
}

// Plans the rung; gives the planned program's text.
std::string plan_rung(Rung& rung, const Options& options) {
  std::string text;
  in_rung(rung, [&] {
    const Resolved run = resolve_here(options);
    const Plan plan = plan_run(run).plan;
    rung.planned_bytes = arena_of(plan);
    rung.scratch_is_a_cap = run.recipe.backend == Backend::cuda;
    rung.fits = arenas_of(plan.module).fits_in(run.limits());
    text = print(plan.module);
  });
  return text;
}

struct PlannedRung {
  Rung rung;
  Options options;
};

// A technique that leaves the program as it was means nothing for this model (attention, for an
// mlp) and has no rung.
std::vector<PlannedRung> plan_rungs(const Options& baseline) {
  std::vector<PlannedRung> rungs;
  const auto add = [&](std::string name, const Change& change) {
    rungs.push_back(
        {{.name = std::move(name), .change = flags_of(change)}, changed(baseline, change)});
    return plan_rung(rungs.back().rung, rungs.back().options);
  };
  const std::string plain = add(kBaseline, baseline_change());
  Change together;
  for (const Step& step : steps_above(baseline)) {
    if (add(step.name, step.change) == plain) {
      rungs.pop_back();
      continue;
    }
    if (step.together) together += step.change;
  }
  add("all together", together);
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
  if (options.device == DeviceChoice::null) {
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
  refuse_ranks(options);
  const Resolved asked = resolve_here(options);
  const Options baseline = baseline_of(options);
  Samples::for_training(asked);  // throws what every rung would
  LadderReport report{.device = device_text(asked),
                      .sequences = asked.options.global_batch,
                      .seq = asked.options.seq};
  const std::vector<PlannedRung> rungs = plan_rungs(baseline);
  for (const PlannedRung& planned : rungs) report.rungs.push_back(planned.rung);
  if (observer.planned) observer.planned(report);
  for (size_t i = 0; i < rungs.size(); ++i) {
    Rung& rung = report.rungs[i];
    if (observer.started) observer.started(rung);
    if (rung.fits) in_rung(rung, [&] { measure(rung, rungs[i].options); });
    if (observer.measured) observer.measured(rung);
  }
  return report;
}

}  // namespace snug

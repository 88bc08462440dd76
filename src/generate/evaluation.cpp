#include "generate/evaluation.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/units.h"
#include "compile/compile.h"
#include "data/token_stream.h"
#include "passes/shared_names.h"
#include "report/eval_report.h"

namespace snug {
namespace {

PlannedRun plan_evaluation(const Resolved& run) {
  return planned_forward(
      run, compile_evaluation(run.model.config().name, run.model.forward(run.build), run.recipe));
}

std::string words_of(const Resolved& run) {
  return fmt::format("evaluation of {} at --batch {} --seq {}", run.model.config().name,
                     run.build.batch, run.build.seq);
}

bool leaves_batch_open(const Options& o) {
  return std::ranges::find(o.given, "batch") == o.given.end() && o.batch == Options{}.batch;
}

// The batch changes no sum but for rounding: where none was given, it is halved until it fits.
PlannedRun plan_within_budget(const Resolved& run) {
  PlannedRun planned = plan_evaluation(run);
  while (leaves_batch_open(run.asked) && !fits(planned) && planned.run.build.batch > 1) {
    planned =
        plan_evaluation(changed(planned.run, {{&Options::batch, planned.run.build.batch / 2}}));
  }
  return planned;
}

// Changes that leave the loss as it is, but for rounding.
std::vector<Change> smaller(const Resolved& run) {
  std::vector<Change> changes;
  for (int64_t batch = run.build.batch / 2; batch > 0; batch /= 2)
    changes.push_back({{&Options::batch, batch}});
  if (run.recipe.precision == Dtype::f32)
    changes.push_back({{&Options::precision, ComputeType::bf16}, {&Options::batch, 1}});
  if (run.recipe.backend == Backend::cuda && !run.recipe.offload.moves(OffloadItem::params))
    changes.push_back({{&Options::offload, on_host({OffloadItem::params})}, {&Options::batch, 1}});
  return changes;
}

Options checked(Options o) {
  if (o.data == "auto") throw usage_error("snug eval needs --data: a text, or a file of tokens");
  if (o.data == "synthetic")
    throw usage_error("--data synthetic has no end, and eval goes through all of its data")
        .hint("give a text, or a file of tokens");
  o.no_shuffle = true;
  return o;
}

// Is a token a byte of text?
bool reads_bytes(const Resolved& run) {
  return (run.options.bytes || !run.model.has_tokenizer()) && holds_text(run.options.data);
}

}  // namespace

Evaluation::Evaluation(const Options& options, EvalObserver observer)
    : observer_(std::move(observer)) {
  const Resolved run = resolve_forward(checked(options), "snug eval");
  if (!run.model.config().transformer)
    throw usage_error("model '{}' takes features, not tokens: there is no data for it",
                      run.options.model);
  if (const std::string note = run.model.sequence_note(run.build.seq);
      !note.empty() && observer_.said)
    observer_.said(note);
  if (observer_.doing) observer_.doing("planning");
  planned_.emplace(plan_within_budget(run));
  const PlannedRun& planned = *planned_;
  require_forward_fit(planned, {words_of(planned.run), plan_evaluation, smaller(planned.run)});
  samples_.emplace(Samples::for_training(planned.run));
  if (observer_.planned) {
    observer_.planned(forward_plan_report(
        planned,
        fmt::format("evaluation, batch {} x {}", planned.run.build.batch, planned.run.build.seq)));
  }
  if (observer_.said) observer_.said(fmt::format("data: {}", samples_->text()));
  reads_bytes_ = reads_bytes(planned.run);
  model_.emplace(planned, observer_.doing, observer_.said);
}

EvalReport Evaluation::run() {
  Executor& executor = model_->executor();
  report_ = {};
  sum_ = 0;
  report_.all_windows = samples_->windows();
  report_.planned_bytes = executor.planned_bytes();
  if (observer_.doing) observer_.doing("evaluating");
  const auto start = std::chrono::steady_clock::now();
  while (report_.windows < report_.all_windows) {
    add_batch(executor);
    report_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    summarise();
    if (observer_.evaluated) observer_.evaluated(report_);
  }
  report_.peak_bytes = executor.measured_bytes();
  return report_;
}

void Evaluation::add_batch(Executor& executor) {
  const Resolved& run = planned_->run;
  const int64_t rows = std::min(run.build.batch, report_.all_windows - report_.windows);
  samples_->feed(executor, report_.windows, rows, /*micro_batch=*/0);
  executor.run(ProgramRole::evaluation);
  const double sum = executor.read_scalar<float>(executor.shared(shared_names::kLoss));
  if (!std::isfinite(sum)) {
    throw device_error("the loss is {} in windows {} to {} of {}", sum, report_.windows,
                       report_.windows + rows - 1, report_.all_windows)
        .hint(run.recipe.precision == Dtype::f16
                  ? "fp16 ends at 65504: try --precision bf16"
                  : "weights that large overflow; try --precision fp32");
  }
  sum_ += sum;
  report_.windows += rows;
  report_.tokens += samples_->counted_targets();
}

void Evaluation::summarise() {
  const auto tokens = static_cast<double>(report_.tokens);
  report_.loss = report_.tokens > 0 ? sum_ / tokens : 0;
  report_.perplexity = std::exp(report_.loss);
  if (reads_bytes_) report_.bits_per_byte = report_.loss / std::numbers::ln2;
  report_.tokens_per_s = tokens / report_.seconds;
}

}  // namespace snug

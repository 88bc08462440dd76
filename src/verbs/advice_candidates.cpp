#include "verbs/advice_candidates.h"

#include <fmt/format.h>

#include <set>

#include "base/units.h"
#include "search/plan_run.h"

namespace snug {
namespace {

const std::string kWithoutMaster = "--precision bf16 --master none";

bool recomputes(const Resolved& run) {
  return run.recipe.recompute.kind != RecomputePolicy::Kind::none;
}

// Clipping by the global norm, where there is any, has to go.
Candidate update_in_backward(const Resolved& run) {
  if (run.recipe.clip > 0) return {"--update-in-backward --clip 0", Effect::learning, true};
  return {"--update-in-backward", Effect::exact};
}

}  // namespace

std::vector<int64_t> smaller_micro_batches(const Resolved& run) {
  const int64_t sequences = run.options.global_batch;
  constexpr int64_t kMost = 1 << 16;  // beyond, no step is one that runs
  std::set<int64_t> divisors;
  for (int64_t n = 1; n <= kMost && n * n <= sequences; ++n) {
    if (sequences % n == 0) divisors.insert({n, sequences / n});
  }
  return {divisors.begin(), divisors.lower_bound(run.build.batch)};
}

std::string micro_batch_flags(const Resolved& run, int64_t batch) {
  const int64_t sequences = run.options.global_batch;
  std::string flags = fmt::format("--batch {} --accum {}", batch, ceil_div(sequences, batch));
  if (sequences % batch != 0) flags += fmt::format(" --global-batch {}", sequences);
  return flags;
}

std::vector<Candidate> activation_changes(const Resolved& run) {
  std::vector<Candidate> all;
  if (run.budget && !budget_decides(run)) all.push_back({"--recompute auto", Effect::exact});
  if (!run.budget && !recomputes(run)) all.push_back({"--recompute full", Effect::exact});
  if (run.build.attention == ops::AttentionKind::standard)
    all.push_back({"--attention flash", Effect::rounding});
  if (!run.build.chunked_loss) all.push_back({"--loss chunked", Effect::rounding});
  if (run.recipe.compress == CompressKind::none)
    all.push_back({"--compress int8", Effect::learning});
  return all;
}

std::vector<Candidate> state_changes(const Resolved& run) {
  const Recipe& r = run.recipe;
  std::vector<Candidate> all;
  if (r.precision == Dtype::f32) all.push_back({"--precision bf16", Effect::learning});
  if (r.precision == Dtype::f32) all.push_back({kWithoutMaster, Effect::learning});
  if (r.precision != Dtype::f32 && r.master) all.push_back({"--master none", Effect::learning});
  if (r.precision != Dtype::f32 && r.grad_dtype == Dtype::f32)
    all.push_back({fmt::format("--grad-dtype {}", run.options.precision), Effect::learning});
  if (r.state_dtype == Dtype::f32 && r.optimizer != OptimizerKind::adamw8bit)
    all.push_back({"--state-dtype bf16", Effect::learning});
  if (!r.update_in_backward) all.push_back(update_in_backward(run));
  if (r.optimizer == OptimizerKind::adamw)
    all.push_back({"--optimizer adamw8bit", Effect::learning});
  return all;
}

std::vector<Candidate> other_optimizers(const Resolved& run) {
  const Recipe& r = run.recipe;
  std::vector<Candidate> all;
  if (r.optimizer == OptimizerKind::adamw)
    all.push_back({"--optimizer adam-mini", Effect::learning, true});
  if (r.optimizer != OptimizerKind::lion && r.optimizer != OptimizerKind::sgd)
    all.push_back({"--optimizer lion", Effect::learning, true});
  if (r.optimizer != OptimizerKind::sgd)
    all.push_back({"--optimizer sgd --momentum 0", Effect::learning, true});
  return all;
}

std::vector<Candidate> speed_changes(const Resolved& run) {
  std::vector<Candidate> all;
  if (!run.budget && recomputes(run)) all.push_back({"--recompute none", Effect::exact});
  if (run.recipe.accum > 1 && run.recipe.accum % 2 == 0)
    all.push_back({micro_batch_flags(run, 2 * run.build.batch), Effect::rounding});
  if (run.recipe.backend == Backend::cuda && run.recipe.precision == Dtype::f32 && !run.math.tf32)
    all.push_back({"--tf32", Effect::rounding});
  return all;
}

std::vector<Candidate> combinations(const Resolved& run) {
  const std::string state = run.recipe.state_dtype == Dtype::f32 ? "" : " --state-dtype fp32";
  const std::string eight = kWithoutMaster + " --optimizer adamw8bit" + state;
  const std::string plain = kWithoutMaster + " --optimizer sgd --momentum 0";
  // Gradients that add up over micro-batches cannot be freed on the way.
  const std::string freed =
      run.recipe.clip > 0 ? " --update-in-backward --clip 0" : " --update-in-backward";
  const std::string one =
      run.asked.global_batch > 0 ? " --batch 1 --accum 1 --global-batch 1" : " --batch 1 --accum 1";
  std::vector<Candidate> all{{eight, Effect::learning}};
  if (run.build.batch > 1)
    all.push_back(
        {eight + " " + micro_batch_flags(run, 1) + " --grad-dtype bf16", Effect::learning});
  for (const std::string& flags : {eight + freed, eight + freed + one, plain + freed + one})
    all.push_back({flags, Effect::learning, true});
  return all;
}

}  // namespace snug

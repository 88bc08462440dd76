#include "advice/advice_candidates.h"

#include <set>

#include "base/units.h"
#include "search/plan_run.h"

namespace snug {
namespace {

std::vector<Candidate> rows(const Resolved& run, Touches touches, bool last_resort) {
  std::vector<Candidate> found;
  for (const Technique& t : techniques()) {
    if (t.touches == touches && t.last_resort == last_resort && t.helps != nullptr &&
        t.helps(run, run.budget.has_value()))
      found.push_back({t.change, effect_in(t, run), t.other_method});
  }
  return found;
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

Change micro_batch_change(const Resolved& run, int64_t batch) {
  const int64_t sequences = run.options.global_batch;
  Change change{{&Options::batch, batch}, {&Options::accum, ceil_div(sequences, batch)}};
  if (sequences % batch != 0) change += {{&Options::global_batch, sequences}};
  return change;
}

std::vector<Candidate> helpful_changes(const Resolved& run, Touches touches) {
  std::vector<Candidate> all = rows(run, touches, /*last_resort=*/false);
  if (touches == Touches::activations && run.budget && !budget_decides(run))
    all.insert(all.begin(),
               {{not_given(&Options::recompute)}, effect_in(smallest_of("recompute"), run)});
  if (touches == Touches::arithmetic && run.recipe.accum > 1 && run.recipe.accum % 2 == 0)
    all.push_back({micro_batch_change(run, 2 * run.build.batch), Effect::rounding});
  return all;
}

std::vector<Candidate> last_resorts(const Resolved& run) {
  return rows(run, Touches::state, /*last_resort=*/true);
}

std::vector<Candidate> combinations(const Resolved& run) {
  const Change narrow = smallest_of("precision").change;
  Change eight = narrow + smallest_of("optimizer").change;
  if (run.recipe.state_dtype != Dtype::f32) eight += {{&Options::state_dtype, StateType::fp32}};
  const Change plain = narrow + technique("sgd").change;
  // Gradients that add up over micro-batches cannot be freed on the way.
  const Change freed = run.recipe.clip > 0 ? smallest_of("update").change
                                           : technique("update in backward, unclipped").change;
  Change one{{&Options::batch, 1}, {&Options::accum, 1}};
  if (run.asked.global_batch > 0) one += {{&Options::global_batch, 1}};
  std::vector<Candidate> all{{eight, Effect::learning}};
  if (run.build.batch > 1) {
    all.push_back({eight + micro_batch_change(run, 1) + technique("bf16 gradients").change,
                   Effect::learning});
  }
  for (const Change& change : {eight + freed, eight + freed + one, plain + freed + one})
    all.push_back({change, Effect::learning, true});
  return all;
}

}  // namespace snug

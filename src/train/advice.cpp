#include "train/advice.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "base/error.h"
#include "base/units.h"
#include "train/planning.h"

namespace snug {
namespace {

// The bytes that a run takes; where not even the most recompute is enough, the fewest there are.
int64_t arena_of(const Resolved& run) {
  if (!leaves_recompute_open(run)) return arena_of(plan_run(run).plan);
  RecomputeSearch search = search_for(run);
  const int64_t bytes = std::max(run.recipe.recompute.bytes, search.smallest_feasible());
  return arena_of(search.choose(bytes).plan);
}

bool fits_its_budget(const Resolved& run) {
  const int64_t bytes = budget_decides(run) ? search_for(run).smallest_feasible() : arena_of(run);
  return bytes <= *run.budget;
}

using Change = std::function<void(Options&)>;

// The run with a change typed behind the other words. None: they refuse it.
std::optional<Resolved> changed(const Resolved& run, const Change& change) {
  Options options = run.asked;
  change(options);
  try {
    return resolve(options);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// The largest value below `high`, which is too much, with which the run fits; 0 when not even 1
// does.
int64_t largest_that_fits(const Resolved& run, int64_t high,
                          const std::function<void(Options&, int64_t)>& set) {
  const auto fits = [&](int64_t n) {
    const auto with = changed(run, [&](Options& o) { set(o, n); });
    return with && fits_its_budget(*with);
  };
  if (high <= 1 || !fits(1)) return 0;
  int64_t low = 1;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace

std::vector<Advice> advice_for(const Resolved& run, const Plan& plan) {
  std::vector<Advice> advice;
  const auto try_change = [&](std::string flag, const Change& change) {
    const auto with = changed(run, change);
    const int64_t arena = with ? arena_of(*with) : arena_of(plan);
    if (arena < arena_of(plan)) advice.push_back({std::move(flag), arena, {}});
  };
  if (!budget_decides(run))
    try_change("--recompute auto", [](Options& o) { o.recompute = "auto"; });
  if (run.build.attention == ops::AttentionKind::standard)
    try_change("--attention flash", [](Options& o) { o.attention = "flash"; });
  if (!run.build.chunked_loss) try_change("--loss chunked", [](Options& o) { o.loss = "chunked"; });
  // From here on results change.
  if (run.recipe.optimizer == OptimizerKind::adamw)
    try_change("--optimizer adamw8bit", [](Options& o) { o.optimizer = "adamw8bit"; });
  if (run.recipe.precision == Dtype::f32) {
    try_change("--precision bf16 --master none", [](Options& o) {
      o.precision = "bf16";
      o.master = "none";
    });
  }
  // Where micro-batches were counted beside a global batch, the count goes along.
  const bool counted = run.asked.global_batch > 0 && run.asked.accum > 1;
  const auto set_batch = [counted](Options& o, int64_t n) {
    o.batch = n;
    if (counted) o.accum = ceil_div(o.global_batch, n);
  };
  const auto batch_flag = [&](int64_t n) {
    Options o = run.asked;
    set_batch(o, n);
    return fmt::format("--batch {}{}", n, counted ? fmt::format(" --accum {}", o.accum) : "");
  };
  if (const int64_t n = largest_that_fits(run, run.build.batch, set_batch); n > 0) {
    try_change(batch_flag(n), [&](Options& o) { set_batch(o, n); });
    return advice;
  }
  const auto set_seq = [&](Options& o, int64_t n) {
    set_batch(o, 1);
    o.seq = n;
  };
  if (const int64_t n = largest_that_fits(run, run.build.seq, set_seq); n > 0)
    try_change(fmt::format("{} --seq {}", batch_flag(1), n), [&](Options& o) { set_seq(o, n); });
  return advice;
}

}  // namespace snug

#include "advice/priced_plan.h"

#include <algorithm>

#include "base/error.h"
#include "base/parallel.h"
#include "machine/here.h"
#include "techniques/techniques.h"

namespace snug {
namespace {

// Options of a training in PyTorch by default, where they are not given.
Options as_pytorch(Options options) {
  if (!is_given(options, "loss")) options.loss = LossChoice{.chunked = false};
  if (!is_given(options, "recompute")) options.recompute = RecomputePolicy{};
  if (!is_given(options, "offload")) options.offload = Offload{};
  if (!is_given(options, "accum")) options.accum = 1;
  return options;
}

struct Row {
  std::string remedy;  // as the findings call it
  Change change;
};

std::vector<Row> rows_for(const Options& options) {
  std::vector<Row> rows{
      {"checkpointing", technique("recompute every layer").change},
      {"chunked loss", technique("chunked loss").change},
      {"optimizer state in 8 bits", technique("adamw8bit").change},
      {"optimizer state offloaded", technique("offload state").change},
      {"activations to the host", technique("offload activations").change},
      {"state shared by 2 GPUs", {{&Options::ranks, 2}, {&Options::zero, ZeroLevel::state}}},
      {"all of it shared by 2 GPUs",
       {{&Options::ranks, 2}, {&Options::zero, ZeroLevel::parameters}}},
  };
  if (options.batch > 1)
    rows.push_back({"half the batch",
                    {{&Options::batch, options.batch / 2}, {&Options::accum, 2 * options.accum}}});
  return rows;
}

}  // namespace

PricedPlan priced_plan(const Options& asked) {
  const Options options = as_pytorch(asked);
  const PlannedRun now = plan_run(resolve_here(options));
  PricedPlan out{.what = fmt::format("{} on {}, batch {} x {}, {}", now.run.model.config().name,
                                     device_text(now.run), now.run.build.batch, now.run.build.seq,
                                     print_setting(now.run.options.precision)),
                 .peak_bytes = arena_of(now.plan),
                 .step_ms = now.step_seconds * 1e3,
                 .rests_on = now.run.cost_model.origin()};
  const std::vector<Row> rows = rows_for(options);
  std::vector<std::optional<PricedChange>> priced(rows.size());
  for_each_in_parallel(rows.size(), [&](size_t i) {
    priced[i] = unless_refused([&] {
      const PlannedRun then = plan_run(resolve_here(changed(options, rows[i].change)));
      return PricedChange{.remedy = rows[i].remedy,
                          .flags = flags_of(rows[i].change),
                          .peak_bytes = arena_of(then.plan),
                          .saves_bytes = out.peak_bytes - arena_of(then.plan),
                          .step_ms = then.step_seconds * 1e3,
                          .more_ms = then.step_seconds * 1e3 - out.step_ms};
    });
  });
  for (std::optional<PricedChange>& change : priced)
    if (change && change->saves_bytes > 0) out.changes.push_back(*std::move(change));
  std::ranges::stable_sort(out.changes, std::greater(), &PricedChange::saves_bytes);
  return out;
}

}  // namespace snug

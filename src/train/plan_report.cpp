#include "train/plan_report.h"

#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "ir/text.h"
#include "train/advice.h"

namespace snug {
namespace {

// Every option of a plan with the value it resolved to. Null: no budget, or the several dropout
// rates of the model's own configuration.
nlohmann::ordered_json recipe_json(const Options& options) {
  nlohmann::ordered_json recipe;
  recipe["model"] = options.model;
  each_option(options,
              [&](std::string_view key, const auto& value, std::string_view, OptionUse use) {
                if (use == OptionUse::plan_and_train && key != "json")
                  recipe[std::string(key)] = value;
              });
  if (options.budget.empty()) recipe["budget"] = nullptr;
  if (options.dropout < 0) recipe["dropout"] = nullptr;
  return recipe;
}

// The techniques that shape every plan, and whatever was asked for beyond the defaults.
std::vector<std::string> headline_of(const Options& options) {
  std::vector<std::string> keys{"precision", "attention", "loss", "recompute", "optimizer"};
  Options plain;
  plain.model = options.model;
  plain = resolve(plain).options;
  std::vector<std::string> values;
  const auto text = [](const auto& value) { return fmt::format("{}", value); };
  each_option(plain, [&](std::string_view, const auto& value, std::string_view, OptionUse) {
    values.push_back(text(value));
  });
  size_t at = 0;
  each_option(options, [&](std::string_view key, const auto& value, std::string_view, OptionUse) {
    if (values[at++] != text(value)) keys.emplace_back(key);
  });
  return keys;
}

}  // namespace

PlanFacts facts_of(const PlannedRun& planned, const Resolved& run, Advise advise) {
  PlanFacts facts{.model = run.model.config().name,
                  .batch = run.build.batch,
                  .seq = run.build.seq,
                  .accum = run.recipe.accum,
                  .sequences = run.options.global_batch,
                  .recipe = recipe_json(run.options),
                  .headline = headline_of(run.options),
                  .context_bytes = run.context,
                  .chosen = planned.chosen};
  if (run.budget) facts.budget_bytes = *run.budget + run.context;
  if (advise == Advise::always || !fits(planned.plan.account, facts))
    facts.advice = advice_for(run, planned.plan);
  return facts;
}

PlanReport report_of(const PlannedRun& planned, const Resolved& run, Advise advise, bool colour) {
  const PlanFacts facts = facts_of(planned, run, advise);
  const Plan& plan = planned.plan;
  PlanReport report;
  report.fits = fits(plan.account, facts);
  report.arena_bytes = arena_of(plan);
  report.table = render_plan(plan.account, facts, colour);
  report.json = plan_json(plan.account, facts).dump(2);
  return report;
}

void require_fit(const PlannedRun& planned, const Resolved& run) {
  const int64_t arena = arena_of(planned.plan);
  if (!run.budget || arena <= *run.budget) return;
  const Peak& peak = planned.plan.account.device().peak;
  std::string changes;
  for (const Advice& a : advice_for(run, planned.plan)) {
    if (a.peak_bytes <= *run.budget)
      changes += fmt::format("{}{} ({})", changes.empty() ? "" : ", or ", a.change,
                             format_bytes(a.peak_bytes));
  }
  const std::string context = run.context == 0 ? ""
                                               : fmt::format(" beside {} for driver and libraries",
                                                             format_bytes(run.context));
  throw does_not_fit(
      "{} at --batch {} --seq {} needs {}{} ({} bytes) and the budget is {} ({} bytes){}; the peak "
      "is in program '{}' at '{}'",
      run.model.config().name, run.build.batch, run.build.seq,
      budget_decides(run) ? "at least " : "", format_bytes(arena), format_exact(arena),
      format_bytes(*run.budget), format_exact(*run.budget), context, peak.program, peak.op)
      .hint(changes.empty()
                ? "no smaller batch or sequence fits either: the model's own state is too large"
                : "it would fit with " + changes);
}

PlanReport plan(const Options& options, bool with_program) {
  const Resolved run = resolve(options);
  const PlannedRun planned = plan_run(run);
  PlanReport report =
      report_of(planned, run, Advise::always, !options.json && stdout_is_terminal());
  if (with_program) report.program = print(planned.plan.module);
  return report;
}

}  // namespace snug

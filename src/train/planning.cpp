#include "train/planning.h"

#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "ir/text.h"
#include "models/catalogue.h"
#include "plan/recompute_search.h"
#include "plan/report.h"
#include "train/advice.h"

namespace snug {

int64_t arena_of(const Plan& plan) {
  return plan.module.arena_bytes[static_cast<size_t>(Space::device)];
}

bool leaves_recompute_open(const Resolved& run) {
  return run.recipe.recompute.kind == RecomputePolicy::Kind::automatic;
}

bool budget_decides(const Resolved& run) {
  return leaves_recompute_open(run) && run.budget == run.recipe.recompute.bytes;
}

RecomputeSearch search_for(const Resolved& run) {
  return {run.model.config().name, run.model.forward(run.build), run.recipe, run.prices};
}

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

PlanFacts facts_of(const PlannedRun& planned, const Resolved& run) {
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
  if (!fits(planned.plan.account, facts)) facts.advice = advice_for(run, planned.plan);
  return facts;
}

}  // namespace

PlannedRun plan_run(const Resolved& run) {
  if (!leaves_recompute_open(run))
    return {make_plan(run.model.config().name, run.model.forward(run.build), run.recipe), {}};
  RecomputeSearch search = search_for(run);
  int64_t bytes = run.recipe.recompute.bytes;
  if (budget_decides(run)) bytes = std::max(bytes, search.smallest_feasible());
  RecomputeChoice choice = search.choose(bytes);
  PlannedRun planned{std::move(choice.plan), {}};
  if (choice.policy.kind != RecomputePolicy::Kind::none) {
    planned.chosen = ChosenRecompute{
        .policy = text(choice.policy),
        .needed_without = choice.needed_without,
        .extra_time = choice.extra_seconds / (choice.step_seconds - choice.extra_seconds)};
  }
  return planned;
}

PlanReport report_of(const PlannedRun& planned, const Resolved& run, bool colour) {
  const PlanFacts facts = facts_of(planned, run);
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
  PlanReport report = report_of(planned, run, !options.json && stdout_is_terminal());
  if (with_program) report.program = print(planned.plan.module);
  return report;
}

std::vector<ModelLine> models() {
  std::vector<ModelLine> lines;
  for (const CatalogueEntry& entry : catalogue()) {
    const Model model = Model::load(entry.name);
    const ModelConfig& c = model.config();
    lines.push_back(
        {entry.name, c.family, entry.notes, model.parameters(), c.L, c.C, c.H, c.K, c.V});
  }
  return lines;
}

}  // namespace snug

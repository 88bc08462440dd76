#include "search/trials.h"

#include <utility>

#include "compile/compile.h"
#include "cost/step_cost.h"
#include "placement/placement.h"

namespace snug {

Settings settings_with(const Variant& variant, const RecomputePolicy& policy) {
  Settings settings = variant.settings;
  settings.recipe.recompute = policy;
  return settings;
}

Module Trials::compile_with(const Variant& variant, const RecomputePolicy& policy) const {
  Recipe recipe = variant.settings.recipe;
  recipe.recompute = policy;
  return compile(name_, variant.stack.whole(), recipe);
}

Estimates::Trial Trials::placed(const Variant& variant, const RecomputePolicy& policy,
                                int64_t effort) {
  last_module_ = compile_with(variant, policy);
  last_ = settings_with(variant, policy);
  const double seconds = step_cost(last_module_, variant.cost_model).step_seconds;
  Module trial = last_module_;
  place(trial, effort);
  return {arenas_of(trial), seconds};
}

Trials::Planned Trials::plan(const Variant& variant, const RecomputePolicy& policy) {
  Module module =
      last_ == settings_with(variant, policy) ? last_module_ : compile_with(variant, policy);
  place(module);
  const double seconds = step_cost(module, variant.cost_model).step_seconds;
  return {plan_of(std::move(module), variant.settings.recipe.backend), seconds};
}

int64_t Trials::needed_without(const Variant& variant) const {
  Module module = compile_with(variant, {});
  place(module);
  return arenas_of(module)[Space::device];
}

std::optional<TriedPlan> Trials::within(Variant variant, const RecomputePolicy& policy, size_t of,
                                        const Limits& limits) {
  const Estimates::Trial trial = estimates_.trial(variant, policy);
  const auto known = corrected_.find(settings_with(variant, policy));
  const SpaceBytes arena =
      known == corrected_.end() ? trial.arena : max(trial.arena, known->second);
  if (!arena.fits_in(limits)) return std::nullopt;
  return TriedPlan{.variant = std::move(variant),
                   .policy = policy,
                   .arena = arena,
                   .seconds = trial.seconds,
                   .of = of};
}

void Trials::correct(const Variant& variant, const RecomputePolicy& policy,
                     const SpaceBytes& arena) {
  corrected_[settings_with(variant, policy)] = arena;
}

}  // namespace snug

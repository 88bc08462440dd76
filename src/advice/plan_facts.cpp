#include "advice/plan_facts.h"

#include <algorithm>
#include <map>

#include "advice/advice.h"
#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "checkpoint/save_cost.h"
#include "cost/step_cost.h"
#include "ir/op_def.h"
#include "ir/text.h"
#include "report/option_json.h"
#include "techniques/pipeline/pipeline_schedule.h"

namespace snug {
namespace {

// Every option of a plan with the value it resolved to. Null: no budget, or the several dropout
// rates of the model's own configuration.
nlohmann::ordered_json recipe_json(const Options& options) {
  nlohmann::ordered_json recipe;
  recipe["model"] = options.model;
  for (const Option& option : all_options())
    if (option.is_for(Verbs::plan) && option.key != "json")
      recipe[std::string(option.key)] = option_json(option, options);
  if (!options.budget.given()) recipe["budget"] = nullptr;
  if (!options.host_budget.given()) recipe["host-budget"] = nullptr;
  if (!options.disk_budget.given()) recipe["disk-budget"] = nullptr;
  if (options.dropout < 0) recipe["dropout"] = nullptr;
  return recipe;
}

// The techniques that shape every plan, and whatever was asked for beyond the defaults.
std::vector<std::string> headline_of(const Options& options, const Model& model) {
  std::vector<std::string> keys{"precision", "attention", "loss", "recompute", "optimizer"};
  if (options.ranks > 1) keys.emplace_back("zero");
  Options plain;
  plain.model = options.model;
  plain.device = options.device;
  plain.gpu = options.gpu;
  settle(plain, model, {});
  for (const Option& option : all_options())
    if (!option.same(plain, options)) keys.emplace_back(option.key);
  return keys;
}

// In place of exchanges that ranks add up in their order.
bool has_library_sums(const Module& module) {
  return std::ranges::any_of(module.programs, [](const Program& program) {
    return std::ranges::any_of(program.ops, [](const Op& op) {
      return op.def->collective == CollectiveKind::reduce_scatter ||
             op.def->collective == CollectiveKind::all_reduce;
    });
  });
}

// Where there are several, or bytes outside the device.
void add_lanes(const PlannedRun& planned, PlanFacts& facts) {
  const Module& module = planned.plan.module;
  std::vector<LaneCost> lanes = lane_costs(module, planned.run.cost_model);
  if (lanes.size() < 2 && !arenas_of(module).outside_device()) return;
  facts.lanes = std::move(lanes);
  facts.links = link_bytes(module, planned.run.cost_model.spec().wire);
  facts.moves_rest_on = planned.run.cost_model.origin_of_moves(module);
  if (has_library_sums(module)) facts.moves_rest_on += "; NCCL sums on the way";
}

}  // namespace

std::optional<AttentionFacts> attention_of(const PlannedRun& planned) {
  const CostModel& model = planned.run.cost_model;
  const auto cost = served_cost(planned.plan.module, model);
  if (!cost) return {};
  return AttentionFacts{.by = cost->served.by,
                        .why = std::string(cost->served.why),
                        .instead = std::string(cost->served.instead),
                        .share = cost->seconds / planned.step_seconds,
                        .times = model.plain_tiles_take_times()};
}

PlanFacts facts_of(const PlannedRun& planned, Advise advise) {
  const Resolved& run = planned.run;
  PlanFacts facts{.model = run.model.config().name,
                  .device = device_text(run),
                  .batch = run.build.batch,
                  .seq = run.build.seq,
                  .accum = run.recipe.accum,
                  .sequences = run.options.global_batch,
                  .ranks = std::max<int64_t>(1, run.options.ranks),
                  .model_params = run.recipe.mesh.pp > 1 ? run.model.parameters() : 0,
                  .recipe = recipe_json(run.options),
                  .headline = headline_of(run.options, run.model),
                  .context_bytes = run.context,
                  .host_is_pinned = run.limits().host_is_pinned,
                  .host_context_bytes = run.host_context(),
                  .chosen = planned.chosen,
                  .runners_up = planned.others,
                  .explain = run.options.explain,
                  .step_ms = planned.step_seconds * 1e3,
                  .rests_on = run.cost_model.origin(),
                  .attention = attention_of(planned)};
  add_lanes(planned, facts);
  for (const Change& change : planned.changed) facts.changed.push_back(flags_of(change));
  if (run.budget) facts.budget_bytes = *run.budget + run.context;
  facts.within_free_memory = run.within_free_memory();
  if (const SaveCost cost = save_cost(planned); !cost.interval.none()) {
    facts.saves = SaveFacts{.every = in_words(cost.interval),
                            .bytes = cost.bytes,
                            .staging = cost.staging,
                            .disk_seconds = cost.disk_seconds,
                            .waits_seconds = cost.waits_seconds,
                            .overlapped = !run.options.save_sync};
  }
  facts.host_budget_bytes = run.host_budget;
  facts.disk_budget_bytes = run.disk_budget;
  facts.stages = planned.stages;
  facts.stage = run.recipe.mesh.stage;
  facts.bubble = planned.bubble;
  if (!planned.stages.empty()) facts.ideal_bubble = ideal_bubble(run.recipe);
  facts.meshes = planned.meshes;
  // Advice is for one device, or for a given mesh.
  if (run.recipe.mesh.pp > 1 || !planned.meshes.empty()) return facts;
  const bool wanted = advise == Advise::always ||
                      (advise == Advise::when_it_does_not_fit && !fits(planned.plan.memory, facts));
  if (wanted) facts.advice = advice_for(planned);
  return facts;
}

PlanReport report_of(const PlannedRun& planned, Advise advise, bool colour) {
  const PlanFacts facts = facts_of(planned, advise);
  const MemoryBreakdown& memory = planned.plan.memory;
  PlanReport report;
  report.fits = fits(memory, facts);
  report.arena_bytes = arena_of(planned.plan);
  report.table = render_plan(memory, facts, colour);
  report.json = plan_json(memory, facts).dump(2);
  return report;
}

namespace {

// The changes that fit, in a sentence; empty: there are none.
std::string changes_that_fit(const PlannedRun& planned) {
  constexpr size_t kNamed = 4;
  std::vector<std::string> changes;
  for (const Advice& a : advice_for(planned)) {
    if (a.needs().fits_in(planned.run.limits()) && changes.size() < kNamed)
      changes.push_back(fmt::format("{} ({})", a.change, format_bytes(a.peak_bytes)));
  }
  return changes.empty() ? "" : "it would fit with " + join(changes, ", or ");
}

// The same, or why there are none.
std::string ways_to_fit(const PlannedRun& planned) {
  std::string changes = changes_that_fit(planned);
  if (!changes.empty()) return changes;
  return "no change is enough on one device: the model's own state is too large; on a GPU "
         "--offload moves it to host memory, and several ranks share it (--ranks N, --gpu NAMExN)";
}

// Whose limit it is: "--host-budget is", "this machine has", "/nvme has".
std::string limit_words(Space space, const Resolved& run, int64_t limit) {
  const ByteLimit& given = space == Space::host ? run.options.host_budget : run.options.disk_budget;
  if (given.bytes == limit) return fmt::format("--{}-budget is", name_of(space));
  return space == Space::host ? "this machine has" : run.options.offload_dir + " has";
}

// Of what lives on disk, the layers from 0 on that a limit has room for: "layer 0-5 of it would
// fit: @0-5=disk; or ". Empty where not even one does.
std::string layers_that_fit(const Module& module, int64_t limit) {
  std::map<int32_t, int64_t> by_layer;
  for (const Value& value : module.values) {
    if (value.space == Space::disk && value.owns_bytes() && value.layer != kNoLayer)
      by_layer[value.layer] += round_up(value.storage_bytes(), alignment_of(Space::disk));
  }
  int32_t last = -1;
  int64_t bytes = 0;
  for (const auto& [layer, more] : by_layer) {
    bytes += more;
    if (bytes > limit) break;
    last = layer;
  }
  if (last < 0) return "";
  const std::string layers = last == 0 ? "0" : fmt::format("0-{}", last);
  return fmt::format("layer {} of it would fit: @{}=disk; or ", layers, layers);
}

// Outside the device.
void require_fit_in(Space space, const PlannedRun& planned) {
  const Resolved& run = planned.run;
  const int64_t arena = arenas_of(planned.plan.module)[space];
  if (arena <= run.limits()[space]) return;
  const int64_t bytes = arena + (space == Space::host ? run.host_context() : 0);
  const int64_t limit = *(space == Space::host ? run.host_budget : run.disk_budget);
  const std::string option = fmt::format("--{}-budget", name_of(space));
  const std::string changes = changes_that_fit(planned);
  std::string farther;
  if (space == Space::disk) {
    farther = layers_that_fit(planned.plan.module, limit);
  } else if (run.options.offload_dir.empty()) {
    farther = !run.asked.offload ? "--offload-dir DIR, whose disk then takes a part; or "
                                 : "=disk after an item, with --offload-dir DIR; or ";
  }
  throw does_not_fit("{} at --batch {} --seq {} keeps {} ({} bytes) {}, and {} {} ({} bytes)",
                     run.model.config().name, run.build.batch, run.build.seq, format_bytes(bytes),
                     format_exact(bytes), space == Space::host ? "in host memory" : "on disk",
                     limit_words(space, run, limit), format_bytes(limit), format_exact(limit))
      .hint(
          fmt::format("{}{}keep more on the device{}, or give {} {} on a machine that has so much",
                      changes.empty() ? "" : changes + ", or ", farther,
                      run.budget ? " with a larger --budget" : "", option, bytes));
}

}  // namespace

void require_fit(const PlannedRun& planned) {
  require_fit_in(Space::host, planned);
  require_fit_in(Space::disk, planned);
  const Resolved& run = planned.run;
  const int64_t arena = arena_of(planned.plan);
  const SpaceBytes arenas = arenas_of(planned.plan.module);
  if (arenas.fits_in(run.limits())) return;
  const int64_t context = run.context_with(arenas);
  const int64_t available = *run.budget + run.context - context;
  const Peak& peak = planned.plan.memory.device().peak;
  const std::string context_words =
      context == 0 ? "" : fmt::format(" after {} for driver and libraries", format_bytes(context));
  throw does_not_fit(
      "{} at --batch {} --seq {} needs {}{} ({} bytes) and the budget is {} ({} bytes){}; the peak "
      "is in program '{}' at '{}'",
      run.model.config().name, run.build.batch, run.build.seq,
      budget_decides(run) ? "at least " : "", format_bytes(arena), format_exact(arena),
      format_bytes(available), format_exact(available), context_words, peak.program, peak.op)
      .hint(ways_to_fit(planned));
}

}  // namespace snug

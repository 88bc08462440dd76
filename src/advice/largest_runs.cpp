#include "advice/largest_runs.h"

#include <algorithm>

#include "advice/plan_facts.h"
#include "base/error.h"
#include "base/units.h"
#include "models/scaled.h"
#include "search/largest.h"
#include "search/meshes/mesh_search.h"
#include "techniques/techniques.h"

namespace snug {
namespace {

// Tokens of a micro-batch, and widths, beyond which nothing is searched.
constexpr int64_t kMostTokens = int64_t{1} << 31;
constexpr int64_t kWidest = int64_t{1} << 16;

constexpr const char* kMoreOnHost = "keep more on the device, or give a larger --host-budget";

// Limits of the arenas.
Limits allowed_bytes(const Resolved& run) {
  Limits limits = run.limits();
  if (leaves_recompute_open(run))
    limits[Space::device] = std::min(limits[Space::device], run.recipe.recompute.bytes);
  return limits;
}

// The fewest bytes that the run can do with, whatever is chosen where something is open. A search
// packs with little effort; what it thinks a little too large is packed as a plan is before it is refused.
SpaceBytes need_of(const Resolved& run) {
  if (leaves_mesh_open(run) || run.recipe.mesh.pp > 1) {
    const PlannedRun planned = plan_job(run);
    SpaceBytes need = arenas_of(planned);
    need[Space::device] += planned.run.context - run.context;  // its groups of ranks are others
    return need;
  }
  const bool bytes_are_pinned = leaves_recompute_open(run) && !budget_decides(run);
  PlanSearch search = bytes_are_pinned ? search_for(run) : joint_search(run);
  const Limits limits = allowed_bytes(run);
  const SpaceBytes need = search.smallest_feasible(limits);
  const int64_t device = need[Space::device], excess = device - limits[Space::device];
  if (excess <= 0 || excess > device / 16) return need;
  return min(need, arenas_of(search.smallest(limits).plan.module));
}

// The question is about micro-batches, so none is split. Everything stays on the device unless
// --offload or --host-budget is given: in unlimited host memory every run would fit.
Options unsplit(Options o) {
  if (!o.offload && !o.host_budget.given()) o.offload = Offload{};
  if (o.global_batch > 0)
    o.accum = micro_batches_of(o.global_batch,
                               checked_mul(o.batch, mesh_of(o).dp, "sequences of all ranks"));
  else if (o.accum == 0)
    o.accum = is_interleaved(o) ? mesh_of(o).pp : 1;
  return o;
}

// A family of runs, one for every whole number.
struct Family {
  std::function<Options(int64_t)> at;
  std::function<std::string(int64_t)> name;    // "--batch 12"
  std::function<Change(int64_t)> change = {};  // that makes it from what was asked
  int64_t start = 1, limit = 1;
  std::string why_limit;  // in words
  double power = 1;       // how the need grows
};

Largest largest_of(const Family& family, const Trying& trying) {
  const Limits limits = allowed_bytes(resolve(family.at(1)));
  return find_largest(
      {.start = family.start, .limit = family.limit, .bytes = limits, .power = family.power},
      [&](int64_t n) {
        if (trying) trying(family.name(n));
        return need_of(resolve(family.at(n)));
      });
}

// The fastest plan of what fits. `change` makes it from what was asked.
FoundLevel describe(const Options& asked, const Resolved& run, Change change) {
  const PlannedRun planned = plan_job(run);
  if (asked.accum != run.recipe.accum) change += {{&Options::accum, run.recipe.accum}};
  if (asked.offload != run.asked.offload && run.recipe.backend == Backend::cuda)
    change += {{&Options::offload, run.asked.offload}};
  for (const Change& chosen : planned.changed) change += chosen;
  const ModelConfig& c = run.model.config();
  const auto tokens = static_cast<double>(run.options.global_batch * run.build.seq);
  FitLevel report{.flags = flags_of(change),
                  .model = run.options.model,
                  .batch = run.build.batch,
                  .seq = run.build.seq,
                  .accum = run.recipe.accum,
                  .parameters = run.model.parameters(),
                  .layers = c.L,
                  .width = c.C,
                  .arena_bytes = arenas_of(planned)[Space::device],
                  .step_seconds = planned.step_seconds,
                  .tokens_per_s = tokens / planned.step_seconds,
                  .recompute = planned.chosen               ? planned.chosen->policy
                               : leaves_recompute_open(run) ? "none"
                                                            : print_setting(run.options.recompute)};
  if (const auto attention = attention_of(planned)) report.attention = attention_text(*attention);
  return {std::move(report), std::move(change)};
}

// "it would take 70.00 GiB of host memory and may take 64.00 GiB"; empty where the device is the
// limit.
std::string limit_off_device(const SpaceBytes& need, const Limits& limits) {
  if (need[Space::device] > limits[Space::device]) return "";
  for (const Space space : {Space::host, Space::disk}) {
    if (need[space] > limits[space])
      return fmt::format("it would take {} of {} memory and may take {}", format_bytes(need[space]),
                         name_of(space), format_bytes(limits[space]));
  }
  return "";
}

// `change`: to the largest.
FoundLevel level_of(const Options& asked, const Family& family, const Largest& found,
                    const Change& change) {
  FoundLevel level{{.flags = flags_of(change)}, change};
  if (found.n > 0) level = describe(asked, resolve(family.at(found.n)), change);
  level.report.next = family.name(found.n + 1);
  if (!found.next_need) {
    level.report.limit = family.why_limit;
    return level;
  }
  level.report.limit = limit_off_device(*found.next_need, allowed_bytes(resolve(family.at(1))));
  if (level.report.limit.empty()) level.report.next_bytes = (*found.next_need)[Space::device];
  return level;
}

// --- batch and sequence -------------------------------------------------------------------------

Family batches(const Options& asked, const Resolved& run) {
  const int64_t sequences = asked.global_batch;
  if (sequences > 0 && is_interleaved(asked))
    throw usage_error(
        "--of batch: of --global-batch {}, few sizes of a micro-batch give the multiples of "
        "stages that --pp-schedule {} takes",
        sequences, print_setting(asked.pp_schedule))
        .hint("--pp-schedule 1f1b or zero-bubble, or leave --global-batch out");
  Family family{.at =
                    [asked](int64_t n) {
                      Options o = asked;
                      o.batch = n;
                      return unsplit(o);
                    },
                .name = [](int64_t n) { return fmt::format("--batch {}", n); },
                .change =
                    [](int64_t n) {
                      return Change{{&Options::batch, n}};
                    },
                .start = asked.batch,
                .limit = std::max<int64_t>(1, kMostTokens / run.build.seq),
                .why_limit = fmt::format("a micro-batch of {} tokens is where fit stops looking",
                                         format_exact(kMostTokens))};
  if (sequences > 0) {
    family.limit = std::min(family.limit, sequences);
    family.why_limit = fmt::format("a step has --global-batch {}", sequences);
  }
  return family;
}

// The longest sequence that the model is made for: its positions, or the window it attends to.
int64_t longest_sequence(const Model& model) {
  const auto refused = [&](int64_t T) {
    return on_device(unless_refused([&] { return model.sequence_note(T); }) ? 0 : 1);
  };
  return find_largest(
             {.start = model.config().max_positions, .limit = model.config().max_positions},
             refused)
      .n;
}

Family sequences(const Options& asked, const Resolved& run) {
  if (!run.model.config().transformer)
    throw usage_error("--of seq: {} has no sequences", asked.model).hint("--of batch");
  const int64_t longest = longest_sequence(run.model);
  return {.at =
              [asked](int64_t n) {
                Options o = asked;
                o.seq = n;
                return unsplit(o);
              },
          .name = [](int64_t n) { return fmt::format("--seq {}", n); },
          .change =
              [](int64_t n) {
                return Change{{&Options::seq, n}};
              },
          .start = run.build.seq,
          .limit = longest,
          .why_limit = fmt::format("{} is made for {} tokens", asked.model, format_exact(longest))};
}

FoundLevel fit_one(const Options& asked, const Family& family, const Resolved& run,
                   const Trying& trying) {
  const Largest found = largest_of(family, trying);
  if (found.n == 0) {
    const SpaceBytes need = found.next_need.value();
    if (const std::string why = limit_off_device(need, allowed_bytes(run)); !why.empty())
      throw does_not_fit("{} does not fit with {}: {}", run.options.model, family.name(1), why)
          .hint(kMoreOnHost);
    throw does_not_fit(
        "{} needs {} ({} bytes) for {} and the budget leaves {} ({} bytes){}", run.options.model,
        format_bytes(need[Space::device]), format_exact(need[Space::device]), family.name(1),
        format_bytes(*run.budget), format_exact(*run.budget),
        run.context == 0
            ? ""
            : fmt::format(" after {} for driver and libraries", format_bytes(run.context)))
        .hint(fmt::format("`snug plan` with {} says which changes would fit", family.name(1)));
  }
  return level_of(asked, family, found, family.change(found.n));
}

// --- model --------------------------------------------------------------------------------------

// A set of techniques under which the largest model is looked for.
struct Techniques {
  std::string name;
  Change change;
};

const Change& plain_change() {
  static const Change plain{{&Options::precision, ComputeType::fp32},
                            {&Options::master, Master::fp32},
                            {&Options::grad_dtype, Open<ComputeType>{}},
                            {&Options::loss_scale, Open<LossScale>{}},
                            {&Options::compress, CompressKind::none}};
  return plain;
}

bool may(const Options& o, AllowItem item) { return !o.allow.any() || o.allow.has(item); }

// Recompute alone; with 16-bit arithmetic; and the smallest of all that --allow names, which is
// everything where it is not given. Where compressed activations may help, they come last.
std::vector<Techniques> techniques_for(const Options& asked, const Resolved& run) {
  const bool bf16 = run.cost_model.spec().bf16_flops > 0;
  const Change mixed = technique(bf16 ? "bf16" : "fp16").change;
  Techniques all{"+ everything allowed", mixed};
  if (bf16 && may(asked, AllowItem::precision)) all.change = smallest_of("precision").change;
  if (may(asked, AllowItem::optimizer)) all.change += smallest_of("optimizer").change;
  if (may(asked, AllowItem::optimizer) && asked.state_dtype != StateType::fp32)
    all.change += {{&Options::state_dtype, StateType::fp32}};
  std::vector<Techniques> list{{"recompute only", {{&Options::precision, ComputeType::fp32}}},
                               {"+ mixed precision", mixed},
                               all};
  if (may(asked, AllowItem::compress))
    list.push_back({all.name, all.change + smallest_of("compress").change});
  return list;
}

Family widths(const Options& asked, const Resolved& run, const Techniques& with) {
  const ModelConfig& c = run.model.config();
  const int64_t step = width_step(c);
  const auto name = [asked, c, step](int64_t n) {
    return scaled_name(asked.model, n * step, layers_at(c, n * step));
  };
  return {
      .at =
          [asked, name, with](int64_t n) {
            Options o = changed(asked, plain_change() + with.change);
            o.allow = {};  // what it says is done
            o.model = name(n);
            return unsplit(o);
          },
      .name = name,
      .start = c.C / step,
      .limit = std::max<int64_t>(1, kWidest / step),
      .why_limit = fmt::format("a width of {} is where fit stops looking", format_exact(kWidest)),
      .power = 3};
}

// Where compressed activations make a larger model fit, that is the last level.
std::vector<FoundLevel> fit_models(const Options& asked, const Resolved& run,
                                   const Trying& trying) {
  std::vector<FoundLevel> levels;
  std::vector<int64_t> sizes;
  for (const Techniques& with : techniques_for(asked, run)) {
    Family family = widths(asked, run, with);
    if (!sizes.empty() && sizes.back() > 0) family.start = sizes.back();
    const Largest found = largest_of(family, trying);
    FoundLevel level = level_of(asked, family, found, with.change);
    level.report.name = with.name;
    const bool again = !levels.empty() && levels.back().report.name == with.name;
    if (again && found.n <= sizes.back()) continue;
    if (again) levels.pop_back();
    levels.push_back(std::move(level));
    sizes.push_back(found.n);
  }
  if (std::ranges::all_of(sizes, [](int64_t n) { return n == 0; })) {
    const FitLevel& most = levels.back().report;
    if (!most.next_bytes)
      throw does_not_fit("even {} with {} does not fit: {}", most.next, most.flags, most.limit)
          .hint(kMoreOnHost);
    throw does_not_fit("even {} with {} needs {} ({} bytes) and the budget leaves {} ({} bytes)",
                       most.next, most.flags, format_bytes(most.next_bytes.value()),
                       format_exact(most.next_bytes.value()), format_bytes(*run.budget),
                       format_exact(*run.budget))
        .hint("a smaller --batch or --seq");
  }
  return levels;
}

}  // namespace

std::vector<FoundLevel> largest_runs(const Options& asked, const Resolved& run,
                                     const std::string& of, const Trying& trying) {
  if (of == "model") return fit_models(asked, run, trying);
  const Family family = of == "batch" ? batches(asked, run) : sequences(asked, run);
  return {fit_one(asked, family, run, trying)};
}

bool is_interleaved(const Options& o) { return o.pp_schedule && o.pp_schedule->chunks > 1; }

}  // namespace snug

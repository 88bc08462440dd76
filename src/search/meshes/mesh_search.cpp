#include "search/meshes/mesh_search.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/parallel.h"
#include "base/text.h"
#include "base/units.h"
#include "recipe/mesh_options.h"
#include "search/meshes/mesh_candidates.h"
#include "search/meshes/stage_plans.h"
#include "techniques/pipeline/pipeline_schedule.h"

namespace snug {
namespace {

constexpr const UniformPolicy* kAllRecomputed = std::end(kUniformPolicies) - 1;

// What the search by layer chooses itself.
bool is_moved_or_recomputed(const Option& option) {
  return &option == &option_of(&Options::recompute) || &option == &option_of(&Options::offload) ||
         &option == &option_of(&Options::offload_ahead) ||
         &option == &option_of(&Options::offload_dir);
}

// More and more of it is offloaded.
std::vector<std::vector<Change>> ways_to_move(bool activations) {
  const Change& with_activations = technique("offload state and activations").change;
  std::vector<Change> first{technique("offload state").change};
  if (activations) first.push_back(with_activations + Change{{&Options::offload_ahead, 3}});
  return {first, {technique("offload all but activations").change}};
}

// What fits by recomputing, on many stages, may be slower than what moves and fits in less. Recomputing
// everything takes a third of a step: of deep models, where it is not more than that, the search takes
// longer than it saves.
constexpr double kFarFromIdeal = 1.2, kFarFromIdealDeep = 1.4;
// Estimates of what moves may be off by so much.
constexpr double kDoubtMoving = 1.06;

bool fits(const PlannedRun& planned) { return arenas_of(planned).fits_in(planned.run.limits()); }

class MeshSearch {
 public:
  explicit MeshSearch(const Resolved& run)
      : run_(run), by_layer_(is_searched_by_layer(run)), candidates_(run) {}

  // Of what moves only where nothing fits without, or what does is far slower than could be.
  PlannedRun fastest(std::span<const MeshSizes> meshes, bool any_that_fits = false) {
    const double far_from_ideal = any_that_fits ? kForever
                                  : by_layer_   ? kFarFromIdeal
                                                : kFarFromIdealDeep;
    for (const MeshSizes& mesh : meshes) rows_.push_back({.mesh = mesh});
    std::optional<PlannedRun> best = best_with({{}});
    const bool may_move = !run_.asked.offload && run_.recipe.backend == Backend::cuda;
    // Activations take any amount of host memory: where something fits without, only of what is said to be there.
    const bool activations = !best || run_.asked.host_budget.given();
    for (const std::vector<Change>& ways : ways_to_move(activations)) {
      if (!may_move || (best && best->step_seconds < far_from_ideal * ideal_seconds_)) break;
      const double seconds = best ? best->step_seconds : kForever;
      std::optional<PlannedRun> moved = best_with(ways, kDoubtMoving * seconds);
      if (moved && moved->step_seconds < seconds) best = std::move(moved);
    }
    if (!best) best = plan_smallest();
    finish(*best);
    return *std::move(best);
  }

 private:
  // The fastest of all meshes with one of these changes, if it is expected to be faster than that.
  std::optional<PlannedRun> best_with(const std::vector<Change>& ways,
                                      double faster_than = kForever) {
    candidates_.clear();
    for (const Change& more : ways)
      for (MeshRow& row : rows_)
        candidates_.add(row.mesh, more, [&](const Error& why) {
          if (row.change.empty()) {
            row.change = Change{{&Options::mesh, choice_of(row.mesh)}};
            row.why = why.what();
          }
          if (!refused_ && more.settings().empty()) refused_ = why;
        });
    ideal_seconds_ = std::min(ideal_seconds_, candidates_.least_seconds());
    candidates_.estimate([&](const MeshCandidate& c) { lost(c, too_large(c)); }, faster_than);
    std::optional<PlannedRun> best = plan_best(faster_than);
    note_estimates();
    return best;
  }

  std::string too_large(const MeshCandidate& c) const {
    const SpaceBytes left = c.run.limits().left_by(c.smallest);
    const Space space = std::ranges::min(kAllSpaces, {}, [&](Space s) { return left[s]; });
    return fmt::format("needs {} more{} than the budget",
                       format_bytes(std::max<int64_t>(-left[space], 1)),
                       space == Space::device ? "" : fmt::format(" {} memory", name_of(space)));
  }

  MeshRow& row_of(const MeshSizes& mesh) {
    return *std::ranges::find_if(rows_, [&](const MeshRow& r) {
      return std::tie(r.mesh.pp, r.mesh.dp, r.mesh.tp) == std::tie(mesh.pp, mesh.dp, mesh.tp);
    });
  }

  void note_smallest(const MeshCandidate& c) {
    const bool smaller =
        !smallest_ || c.smallest[Space::device] < smallest_->smallest[Space::device];
    const bool as_asked = run_.asked.offload || c.run.recipe.offload.none();
    if (smaller && as_asked) smallest_ = c;
  }

  // The smallest of a mesh that does not fit is said of it.
  void lost(const MeshCandidate& c, std::string why) {
    note_smallest(c);
    MeshRow& row = row_of(c.mesh);
    if (row.seconds > 0 || (row.bytes > 0 && row.bytes <= c.smallest[Space::device])) return;
    row.bytes = c.smallest[Space::device];
    row.change = c.change;
    row.why = std::move(why);
  }

  // What is expected to be fastest is tried, and the fastest of that planned whole.
  std::optional<PlannedRun> plan_best(double faster_than) {
    const bool moves =
        !candidates_.all().empty() && !candidates_.all()[0].run.recipe.offload.none();
    const int most = by_layer_ ? 10 : moves ? 8 : 4;
    // Estimates may be off by so much, most of all where layers are searched one by one.
    const double near = by_layer_ ? 1.15 : moves ? kDoubtMoving : 1.03;
    double best = kForever;
    std::vector<Tried> tried;
    int trials = 0, failures = 0;
    constexpr int kMostFailures = 24;
    std::map<std::string, int> of_mesh;
    const std::span<MeshCandidate> all = candidates_.all();
    TriedAhead ahead;
    for (size_t i = 0; i < all.size(); ++i) {
      MeshCandidate& c = all[i];
      if (c.seconds == kForever || c.seconds > near * best || c.seconds >= faster_than) break;
      if (trials == most || failures == kMostFailures) break;
      // Those of one mesh are alike, pipelines less: what is left of the trials is for others.
      if (by_layer_ && ++of_mesh[text(c.mesh)] > (c.mesh.pp > 1 ? 4 : 2)) continue;
      if (!ahead.contains(i)) try_ahead(i, near * std::min(best, c.seconds), ahead);
      std::optional<Tried> one = std::move(ahead.extract(i).mapped());
      ++(one ? trials : failures);
      if (!one) {
        --of_mesh[text(c.mesh)];
        lost(c, "does not fit, as tried");
        c.seconds = kForever;
        continue;
      }
      say(c, *one);
      best = std::min(best, one->seconds);
      one->candidate = i;
      tried.push_back(*std::move(one));
    }
    std::ranges::stable_sort(tried, {}, &Tried::seconds);
    std::vector<std::pair<size_t, double>> again;  // candidates, and their seconds
    for (Tried& one : tried) {
      if (!one.planned) one.planned = planned_as(one.change);
      if (fits(*one.planned)) return improved(*std::move(one.planned), one.change);
      MeshCandidate& c = all[one.candidate];
      say_too_large(c, one);
      again.emplace_back(one.candidate, std::exchange(c.seconds, kForever));
      c.share = std::max(c.share, one.share);
    }
    if (again.empty()) return std::nullopt;
    for (const auto& [candidate, seconds] : again) recompute_more(all[candidate], seconds);
    candidates_.sort();  // what was left out while there was something faster
    return plan_best(faster_than);
  }

  void recompute_more(MeshCandidate& c, double seconds) const {
    const UniformPolicy* policy = at_least(c.share);
    if (!candidates_.recompute_is_open() || policy == kAllRecomputed) return;
    c.share = (policy + 1)->share;
    c.seconds = seconds;
  }

  struct Tried {
    size_t candidate = 0;
    MeshSizes mesh;
    Change change;
    double share = 1;  // recomputed
    SpaceBytes arena;
    double seconds = 0;
    std::optional<PlannedRun> planned = {};  // where that is as cheap
  };
  using TriedAhead = std::map<size_t, std::optional<Tried>>;  // by candidate

  // This one and, in parallel, the next, if that is within reach whatever comes of the first.
  void try_ahead(size_t first, double within, TriedAhead& ahead) {
    const std::span<MeshCandidate> all = candidates_.all();
    std::vector<size_t> few{first};
    if (first + 1 < all.size() && all[first + 1].seconds <= within) few.push_back(first + 1);
    std::vector<std::optional<Tried>> found(few.size());
    for_each_in_parallel(few.size(), [&](size_t i) { found[i] = try_out(all[few[i]]); });
    for (size_t i = 0; i < few.size(); ++i) ahead[few[i]] = std::move(found[i]);
  }

  void say(const MeshCandidate& c, const Tried& tried) {
    MeshRow& row = row_of(c.mesh);
    if (row.whole && row.seconds <= tried.seconds) return;
    row = {.mesh = c.mesh,
           .change = tried.change,
           .bytes = tried.arena[Space::device],
           .seconds = tried.seconds,
           .whole = true};
  }
  void say_too_large(MeshCandidate c, const Tried& tried) {
    MeshRow& row = row_of(tried.mesh);
    if (row.change == tried.change)
      row = {.mesh = tried.mesh,
             .change = tried.change,
             .bytes = arena_of(tried.planned->plan),
             .why = "does not fit by its gaps"};
    c.change = tried.change;
    c.smallest = arenas_of(*tried.planned);
    note_smallest(c);
  }

  PlannedRun planned_as(const Change& change) const {
    const Resolved run = candidates_.resolved(change);
    PlannedRun planned = plan_stages(run);
    planned.changed = {change};
    if (run.recipe.mesh.pp == 1) planned.stages.clear();
    return planned;
  }

  // None where it does not fit after all.
  std::optional<Tried> try_out(const MeshCandidate& c) const {
    const bool to_bytes = c.run.recipe.recompute.kind == RecomputePolicy::Kind::automatic &&
                          !candidates_.recompute_is_open();  // --recompute auto:BYTES
    const bool by_layer = c.run.recipe.offload.none() && by_layer_;
    if (c.mesh.pp == 1 && (by_layer || to_bytes)) {
      std::optional<PlannedRun> planned = searched(c);
      if (!planned) return std::nullopt;
      Tried tried{.mesh = c.mesh,
                  .change = c.change,
                  .arena = arenas_of(planned->plan.module),
                  .seconds = planned->step_seconds};
      for (const Change& more : planned->changed) tried.change += more;
      tried.planned = std::move(planned);
      return tried;
    }
    const UniformPolicy* policy =
        candidates_.recompute_is_open() ? at_least(c.share) : kAllRecomputed;
    std::optional<Tried> tried = try_out(c, *policy);
    if (tried || policy == kAllRecomputed) return tried;
    // The first that fits, if the last one does.
    std::optional<Tried> last = try_out(c, *kAllRecomputed);
    while (last && !tried && ++policy != kAllRecomputed) tried = try_out(c, *policy);
    return tried ? std::move(tried) : std::move(last);
  }

  std::optional<Tried> try_out(const MeshCandidate& c, const UniformPolicy& policy) const {
    Change change = c.change;
    if (candidates_.recompute_is_open()) change += {{&Options::recompute, policy.policy()}};
    const Resolved run = candidates_.resolved(change);
    const StageTrial trial = try_stages(run);
    if (!trial.arena.fits_in(run.limits())) return std::nullopt;
    return Tried{.mesh = c.mesh,
                 .change = change,
                 .share = policy.share,
                 .arena = trial.arena,
                 .seconds = trial.seconds};
  }

  // Bytes do not always fall with what is recomputed, nor does the estimate know by how much.
  PlannedRun with_less_recompute(PlannedRun planned, Change& change) const {
    if (!candidates_.recompute_is_open()) return planned;
    std::vector<OptionValue> less;
    for (const UniformPolicy& policy : kUniformPolicies) {
      if (policy.policy() == planned.run.options.recompute)
        return faster_with(less, std::move(planned), change);
      less.emplace_back(&Options::recompute, policy.policy());
    }
    return planned;
  }

  // A pipeline whose stages wait for each other though they be alike, in the fastest order that fits.
  PlannedRun with_less_bubble(PlannedRun planned, Change& change) const {
    constexpr double kWorthIt = 0.03;  // of a step
    if (ideal_bubble(planned.run.recipe) < kWorthIt || run_.asked.pp_schedule) return planned;
    const StageOrder others[] = {
        {.schedule = PipelineSchedule::zero_bubble}, {.chunks = 2}, {.chunks = 4}};
    std::vector<OptionValue> values;
    for (const StageOrder& order : others) values.emplace_back(&Options::pp_schedule, order);
    return faster_with(values, std::move(planned), change);
  }

  // With another value of one option, if that fits and is faster.
  PlannedRun faster_with(const std::vector<OptionValue>& values, PlannedRun planned,
                         Change& change) const {
    struct Other {
      Change change;
      double seconds = kForever;
    };
    std::vector<Other> others;
    for (const OptionValue& value : values) others.push_back({change + Change{value}});
    for_each_in_parallel(others.size(), [&](size_t i) {
      unless_refused([&] {  // too few layers, or no multiple of the stages
        const Resolved run = candidates_.resolved(others[i].change);
        const StageTrial trial = try_stages(run);
        if (trial.arena.fits_in(run.limits())) others[i].seconds = trial.seconds;
        return true;
      });
    });
    std::ranges::stable_sort(others, {}, &Other::seconds);
    for (Other& other : others) {
      if (other.seconds >= planned.step_seconds) break;
      PlannedRun better = planned_as(other.change);
      if (!fits(better)) continue;
      change = std::move(other.change);
      return better;
    }
    return planned;
  }

  // With all that the mesh leaves open: what moves, what each layer recomputes, what --allow names. Of a
  // deep model that takes a while, which one mesh that was asked for is worth.
  bool may_be_improved(const PlannedRun& planned) const {
    const Recipe& recipe = planned.run.recipe;
    if (by_layer_) return !recipe.offload.none();
    return rows_.size() == 1 &&
           (!recipe.offload.none() || run_.asked.allow.any() || run_.options.explain ||
            recipe.recompute.kind != RecomputePolicy::Kind::none);
  }
  PlannedRun improved(PlannedRun planned, Change change) const {
    if (planned.run.recipe.mesh.pp > 1 || !by_layer_)
      planned = with_less_recompute(std::move(planned), change);
    if (planned.run.recipe.mesh.pp > 1) return with_less_bubble(std::move(planned), change);
    if (!may_be_improved(planned)) return planned;
    Change pins;
    for (const OptionValue& value : change.settings())
      if (!is_moved_or_recomputed(*value.option)) pins += {value};
    const Resolved run = candidates_.resolved(pins);
    PlannedRun other = plan_run(run);
    if (!fits(other) || other.step_seconds >= planned.step_seconds) {
      planned.others = std::move(other.others);
      return planned;
    }
    other.changed.insert(other.changed.begin(), pins);
    return other;
  }

  // With what is recomputed searched layer by layer.
  std::optional<PlannedRun> searched(const MeshCandidate& c) const {
    Resolved run = c.run;
    if (!run.asked.offload)
      run = candidates_.resolved(c.change + Change{{&Options::offload, Offload{}}});
    std::optional<PlannedRun> planned = unless_refused([&] { return plan_run(run); });
    if (!planned || !fits(*planned)) return std::nullopt;
    planned->changed.insert(planned->changed.begin(), c.change);
    return planned;
  }

  // Where nothing fits.
  PlannedRun plan_smallest() {
    if (!smallest_ && rows_.size() == 1 && refused_) throw Error(*refused_);
    if (!smallest_)
      throw usage_error("no mesh of {} GPUs is possible: {}", run_.options.ranks,
                        rows_.front().why);
    const MeshCandidate& c = *smallest_;
    Change change = c.change;
    if (c.mesh.pp == 1) {
      PlannedRun planned = plan_run(candidates_.resolved(change));
      planned.changed.insert(planned.changed.begin(), change);
      return planned;
    }
    if (candidates_.recompute_is_open())
      change += {{&Options::recompute, kAllRecomputed->policy()}};
    PlannedRun planned = plan_stages(candidates_.resolved(change));
    planned.changed = {change};
    return planned;
  }

  // Of meshes of which nothing was planned whole.
  void note_estimates() {
    for (const MeshCandidate& c : candidates_.all()) {
      MeshRow& row = row_of(c.mesh);
      const bool refined = c.seconds < kForever;
      if (row.whole || (!refined && c.is_estimated())) continue;  // too large, as was said
      const bool is_better = refined && (bounded_.contains(&row) || c.seconds < row.seconds);
      if (row.seconds > 0 && !is_better) continue;
      row.change = c.change;
      row.bytes = refined ? c.arena[Space::device] : 0;
      row.seconds = refined ? c.seconds : c.least;
      if (refined)
        bounded_.erase(&row);
      else
        bounded_.insert(&row);
    }
  }

  // Of the meshes, what is known of each and why it was not chosen; the choice first.
  void finish(PlannedRun& planned) {
    const MeshSizes chosen = mesh_of(planned.run.options);
    for (MeshRow& row : rows_) {
      const bool is_choice = text(row.mesh) == text(chosen);
      if (is_choice) {
        row = {.mesh = row.mesh,
               .bytes = arena_of(planned.plan),
               .seconds = planned.step_seconds,
               .whole = true};
        for (const Change& change : planned.changed) row.change += change;
        continue;
      }
      if (row.seconds == 0) continue;
      const double slower = 100 * (row.seconds / planned.step_seconds - 1);
      row.why = slower < -0.05 && !row.whole
                    ? fmt::format("{} {:.1f} % faster, not tried",
                                  bounded_.contains(&row) ? "at best" : "estimated", -slower)
                : slower < 0.05 ? "no faster"
                                : fmt::format("{}{:.1f} % slower",
                                              bounded_.contains(&row) ? "at least " : "", slower);
    }
    std::ranges::stable_sort(rows_, {}, [](const MeshRow& row) {
      return std::tuple(!row.why.empty(), row.seconds == 0,
                        row.seconds > 0 ? row.seconds : static_cast<double>(row.bytes));
    });
    planned.meshes = rows_;
  }

  const Resolved& run_;
  const bool by_layer_;  // is what is recomputed searched layer by layer?
  MeshCandidates candidates_;
  std::optional<MeshCandidate> smallest_;  // of all that do not fit
  std::optional<Error> refused_;           // the first that could not even be tried
  double ideal_seconds_ = kForever;        // what none is below, in any memory
  std::vector<MeshRow> rows_;
  std::set<const MeshRow*> bounded_;  // of which only the least is known
};

}  // namespace

PlannedRun plan_job(const Resolved& run) {
  if (leaves_mesh_open(run)) return plan_meshes(run);
  if (leaves_rest_open(run)) return plan_given_mesh(run);
  return plan_as_given(run);
}

PlannedRun plan_as_given(const Resolved& run) {
  require_sequences(run.options);
  return run.recipe.mesh.pp > 1 ? plan_stages(run) : plan_run(run);
}

SpaceBytes arenas_of(const PlannedRun& planned) {
  SpaceBytes most = arenas_of(planned.plan.module);
  for (const StagePlan& stage : planned.stages) most = max(most, stage.arenas);
  return most;
}

PlannedRun plan_meshes(const Resolved& run) { return plan_meshes(run, possible_meshes(run)); }

PlannedRun plan_meshes(const Resolved& run, std::span<const MeshSizes> meshes) {
  return MeshSearch(run).fastest(meshes);
}

PlannedRun plan_given_mesh(const Resolved& run) {
  const MeshSizes given[] = {mesh_of(run.options)};
  PlannedRun planned = plan_meshes(run, given);
  if (fits(planned)) return planned;
  Resolved any = run;  // of as many sequences
  any.asked =
      changed(run.asked, {{&Options::mesh, MeshChoice{}}, {&Options::tp, 0}, {&Options::pp, 0}});
  if (!any.asked.pp_schedule) any.asked.pp_schedule = StageOrder{};  // 1f1b, which needs least
  const PlannedRun other = MeshSearch(any).fastest(possible_meshes(any), /*any_that_fits=*/true);
  planned.meshes[0].why = "does not fit";
  if (!fits(other)) return planned;
  planned.meshes.push_back(other.meshes[0]);
  planned.meshes.back().why = "fits";
  return planned;
}

}  // namespace snug

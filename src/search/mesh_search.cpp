#include "search/mesh_search.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/parallel.h"
#include "base/text.h"
#include "base/units.h"
#include "search/mesh_costs.h"
#include "search/stage_plans.h"

namespace snug {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();
// Estimates of bytes leave out gaps, and what stages hold besides: so much may be too much.
constexpr double kBytesDoubt = 0.02;
// A pipeline also waits where one program ends and the next begins.
constexpr double kStagesSlower = 1.05;
// In deeper models all layers recompute alike: a search layer by layer takes minutes there.
constexpr int64_t kSearchedLayers = 40;

// What all stages of a pipeline recompute alike, and which share of all that is.
struct StagePolicy {
  const char* text;
  double share;
};
constexpr StagePolicy kStagePolicies[] = {{"none", 0},          {"attention", 0.03},
                                          {"ratio:0.25", 0.25}, {"ratio:0.5", 0.5},
                                          {"ratio:0.75", 0.75}, {"full", 1}};

constexpr const StagePolicy* kAllRecomputed = std::end(kStagePolicies) - 1;

// A mesh with all settled but, where that is open, what is recomputed.
struct Candidate {
  MeshSizes mesh;
  Change change;
  Resolved run;
  double least = 0;           // seconds: ranks with other samples are waited for in none of them
  double seconds = kForever;  // as estimated; forever: not yet, or it does not fit
  SpaceBytes arena;           // of that
  SpaceBytes smallest;        // however much is recomputed
  double share = 0;           // recomputed, of all
};

bool fits(const PlannedRun& planned) { return arenas_of(planned).fits_in(planned.run.limits()); }

class MeshSearch {
 public:
  explicit MeshSearch(const Resolved& run) : run_(run) {}

  PlannedRun fastest(std::span<const MeshSizes> meshes) {
    for (const MeshSizes& mesh : meshes) rows_.push_back({.mesh = mesh});
    add_candidates({});
    estimate();
    std::optional<PlannedRun> best = plan_best();
    for (const char* offload : {"optimizer,master", "optimizer,master,grads,params"}) {
      if (best || run_.asked.offload != "auto" || run_.recipe.backend != Backend::cuda) break;
      candidates_.clear();
      add_candidates({{"offload", offload}});
      estimate();
      best = plan_best();
    }
    if (!best) best = plan_smallest();
    finish(*best);
    return *std::move(best);
  }

 private:
  bool recompute_is_open() const { return run_.asked.recompute == "auto"; }
  bool is_searched_by_layer() const { return run_.model.config().L <= kSearchedLayers; }

  MeshShape shape_of(const Candidate& c) const {
    return {.stages = c.mesh.pp,
            .micro_batches = c.run.recipe.accum,
            .layers = run_.model.config().L,
            .tied = run_.model.config().tied};
  }

  // Sequences of a micro-batch.
  std::vector<int64_t> micro_batches(const MeshSizes& mesh) const {
    const int64_t sequences = run_.options.global_batch / mesh.dp;
    if (run_.asked.accum > 0) return {sequences / run_.asked.accum};
    std::vector<int64_t> sizes;
    for (const int64_t batch : {int64_t{1}, int64_t{2}, int64_t{4}, int64_t{8}, run_.asked.batch})
      if (sequences % batch == 0 && std::ranges::find(sizes, batch) == sizes.end())
        sizes.push_back(batch);
    return sizes;
  }

  // Ways to share the state.
  std::vector<Change> ways_to_share(const MeshSizes& mesh) const {
    if (mesh.dp == 1 || run_.asked.zero != "auto" || !run_.asked.shard.empty()) return {{}};
    std::vector<Change> ways{{{"zero", "1"}}, {{"zero", "0"}}};
    // What stages 2 and 3 bring for the micro-batches of a pipeline stays longer than it saves.
    if (mesh.pp > 1) return ways;
    for (const char* zero : {"2", "3"}) ways.push_back({{"zero", zero}});
    const int64_t machine = run_.cost_model.spec().wire.machine / mesh.tp;
    if (machine < 2 || mesh.dp <= machine || mesh.dp % machine != 0) return ways;
    for (const char* zero : {"1", "2", "3"})
      ways.push_back({{"zero", zero}, {"shard", fmt::format("hybrid:{}", machine)}});
    return ways;
  }

  void add_candidates(const Change& more) {
    for (MeshRow& row : rows_) {
      const int64_t sequences = run_.options.global_batch;
      if (sequences % row.mesh.dp != 0) {
        row.why = fmt::format("{} sequences are not shared by {}", sequences, row.mesh.dp);
        continue;
      }
      try {
        add_candidates(row.mesh, more);
      } catch (const Error& error) {
        if (error.code() != ExitCode::usage && error.code() != ExitCode::does_not_fit) throw;
        row.why = error.what();
      }
    }
  }

  // Throws a usage error where none of them is possible.
  void add_candidates(const MeshSizes& mesh, const Change& more) {
    std::optional<Error> refused;
    bool some = false;
    for (const int64_t batch : micro_batches(mesh)) {
      if (batch < 1) continue;
      const int64_t accum = run_.options.global_batch / mesh.dp / batch;
      for (const Change& share : ways_to_share(mesh)) {
        Change change{{"mesh", text(mesh)}, {"batch", batch}, {"accum", accum}};
        change += share + more;
        try {
          Candidate c{.mesh = mesh, .change = change, .run = resolved(change)};
          bound(c);
          candidates_.push_back(std::move(c));
          some = true;
        } catch (const Error& error) {
          if (error.code() != ExitCode::usage) throw;
          refused = error;
        }
      }
    }
    if (!some && refused) throw *refused;
  }

  Resolved resolved(const Change& change) const {
    return resolve(changed(run_.asked, change), run_.model);
  }

  Resolved with_recompute(const Candidate& c, const char* policy) const {
    Resolved run = c.run;
    if (recompute_is_open()) run.recipe.recompute = parse_recompute(policy);
    return run;
  }

  // Seconds and bytes that it cannot be below, by what ranks with the same samples do.
  void bound(Candidate& c) {
    Resolved none = with_recompute(c, "none"), full = with_recompute(c, "full");
    none.recipe.sharding = full.recipe.sharding = {};
    none.recipe.accum = full.recipe.accum = std::max<int64_t>(2, none.recipe.accum);
    c.least = micro_batch_seconds_of(costs_.of(none), shape_of(c));
    const RankCosts& least = costs_.of(full);
    c.smallest = arenas_of(least, shape_of(c));
    const Sharding& sharding = c.run.recipe.sharding;
    const int64_t sharers = sharding.group > 0 ? sharding.group : sharding.ranks;
    const int64_t layers = ceil_div(run_.model.config().L, c.mesh.pp);
    for (int z = 0; z < sharding.stage; ++z) {
      const int64_t bytes = layers * least.sharable[static_cast<size_t>(z)].layer;
      c.smallest[Space::device] -= bytes - bytes / sharers;
    }
  }

  bool may_fit(const SpaceBytes& arena, const Resolved& run) const {
    Limits limits = run.limits();
    if (limits[Space::device] < kUnlimited)
      limits[Space::device] +=
          static_cast<int64_t>(kBytesDoubt * static_cast<double>(limits[Space::device]));
    return arena.fits_in(limits);
  }

  // The least that is recomputed so that it fits, and what that takes.
  void refine(Candidate& c) {
    const RankCosts& none = costs_.of(with_recompute(c, "none"));
    const RankCosts& full = costs_.of(with_recompute(c, "full"));
    const MeshShape shape = shape_of(c);
    const SpaceBytes most = arenas_of(none, shape), least = arenas_of(full, shape);
    c.smallest = min(most, least);
    c.arena = most;
    if (!may_fit(c.smallest, c.run)) return;
    const int64_t limit = c.run.limits()[Space::device];
    const int64_t device = most[Space::device];
    if (device > limit) {
      const double saved = static_cast<double>(device - least[Space::device]);
      c.share = saved > 0 ? std::min(1.0, static_cast<double>(device - limit) / saved) : 1;
      if (c.mesh.pp > 1) c.share = at_least(c.share)->share;
      c.arena[Space::device] = device - static_cast<int64_t>(c.share * saved);
    }
    const double fast = seconds_of(none, shape), slow = seconds_of(full, shape);
    // Searched layer by layer, what saves most for its time is recomputed first.
    const bool by_layer = c.mesh.pp == 1 && is_searched_by_layer();
    const double part = by_layer ? c.share * c.share : c.share;
    c.seconds = (c.mesh.pp > 1 ? kStagesSlower : 1) * (fast + part * (slow - fast));
  }

  static const StagePolicy* at_least(double share) {
    return std::ranges::find_if(kStagePolicies,
                                [&](const StagePolicy& p) { return p.share >= share - 1e-9; });
  }

  // Best first by what bounds them, a few at a time, until none that is left can be among the fastest.
  void estimate() {
    constexpr size_t kAtATime = 8, kMost = 48;
    constexpr size_t kKept = 4;  // as fast as these nobody is that is not looked at
    std::erase_if(candidates_, [&](const Candidate& c) {
      if (may_fit(c.smallest, c.run)) return false;
      lost(c, too_large(c));
      return true;
    });
    std::ranges::stable_sort(candidates_, {}, &Candidate::least);
    for (size_t begin = 0; begin < std::min(kMost, candidates_.size()); begin += kAtATime) {
      std::vector<double> known;
      for (size_t i = 0; i < begin; ++i) known.push_back(candidates_[i].seconds);
      std::ranges::sort(known);
      if (!is_searched_by_layer() && known.size() >= kKept &&
          candidates_[begin].least > known[kKept - 1])
        break;
      const size_t count = std::min(kAtATime, candidates_.size() - begin);
      for_each_in_parallel(count, [&](size_t i) {
        unless_refused([&] {
          refine(candidates_[begin + i]);
          return true;
        });
      });
    }
    for (const Candidate& c : candidates_)
      if (c.arena[Space::device] > 0 && c.seconds == kForever) lost(c, too_large(c));
    std::ranges::stable_sort(candidates_, {},
                             [](const Candidate& c) { return std::pair(c.seconds, c.least); });
  }

  std::string too_large(const Candidate& c) const {
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

  // The smallest of a mesh that does not fit is said of it.
  void lost(const Candidate& c, std::string why) {
    MeshRow& row = row_of(c.mesh);
    const bool smaller =
        !smallest_ || c.smallest[Space::device] < smallest_->smallest[Space::device];
    if (smaller && c.run.recipe.offload.none()) smallest_ = c;
    if (row.whole || (row.bytes > 0 && row.bytes <= c.smallest[Space::device])) return;
    row.bytes = c.smallest[Space::device];
    row.change = c.change;
    row.why = std::move(why);
  }

  // What is expected to be fastest is tried, and the fastest of that planned whole.
  std::optional<PlannedRun> plan_best() {
    const int most = is_searched_by_layer() ? 10 : 4;
    // Estimates may be off by so much, most of all where layers are searched one by one.
    const double near = is_searched_by_layer() ? 1.15 : 1.03;
    double best = kForever;
    std::vector<Tried> tried;
    int trials = 0;
    std::map<std::string, int> of_mesh;
    for (Candidate& c : candidates_) {
      if (c.seconds == kForever || c.seconds > near * best) break;
      if (trials == most) break;
      // Those of one mesh are alike: what is left of the trials is for others.
      if (is_searched_by_layer() && ++of_mesh[text(c.mesh)] > 2) continue;
      ++trials;
      std::optional<Tried> one = try_out(c);
      if (!one) {
        lost(c, "does not fit, as tried");
        c.seconds = kForever;
        continue;
      }
      say(c, *one);
      best = std::min(best, one->seconds);
      tried.push_back(*std::move(one));
    }
    std::ranges::stable_sort(tried, {}, &Tried::seconds);
    for (Tried& one : tried) {
      if (!one.planned) one.planned = planned_as(one.change);
      if (fits(*one.planned)) return improved(*std::move(one.planned), one.change);
      say_too_large(one);
    }
    return std::nullopt;
  }

  struct Tried {
    MeshSizes mesh;
    Change change;
    SpaceBytes arena;
    double seconds = 0;
    std::optional<PlannedRun> planned = {};  // where that is as cheap
  };

  void say(const Candidate& c, const Tried& tried) {
    MeshRow& row = row_of(c.mesh);
    if (row.whole && row.seconds <= tried.seconds) return;
    row = {.mesh = c.mesh,
           .change = tried.change,
           .bytes = tried.arena[Space::device],
           .seconds = tried.seconds,
           .whole = true};
  }
  void say_too_large(const Tried& tried) {
    MeshRow& row = row_of(tried.mesh);
    row = {.mesh = tried.mesh, .change = tried.change, .bytes = arena_of(tried.planned->plan)};
    row.why = "does not fit by its gaps";
  }

  PlannedRun planned_as(const Change& change) const {
    const Resolved run = resolved(change);
    PlannedRun planned = plan_stages(run);
    planned.changed = {change};
    if (run.recipe.mesh.pp == 1) planned.stages.clear();
    return planned;
  }

  // None where it does not fit after all.
  std::optional<Tried> try_out(const Candidate& c) {
    if (c.mesh.pp == 1 && c.run.recipe.offload.none() && is_searched_by_layer()) {
      auto planned = searched(c);
      if (!planned) return std::nullopt;
      Change change = c.change;
      for (const Change& more : planned->changed) change += more;
      return Tried{.mesh = c.mesh,
                   .change = change,
                   .arena = arenas_of(planned->plan.module),
                   .seconds = planned->step_seconds,
                   .planned = std::move(planned)};
    }
    const StagePolicy* policy = recompute_is_open() ? at_least(c.share) : kAllRecomputed;
    // Where that is not enough by a little, all is.
    for (; policy != std::end(kStagePolicies); policy = std::max(policy + 1, kAllRecomputed)) {
      Change change = c.change;
      if (recompute_is_open()) change += {{"recompute", policy->text}};
      const Resolved run = resolved(change);
      const StageTrial trial = try_stages(run);
      if (trial.arena.fits_in(run.limits()))
        return Tried{
            .mesh = c.mesh, .change = change, .arena = trial.arena, .seconds = trial.seconds};
    }
    return std::nullopt;
  }

  // Without stages, with all that the mesh leaves open: what moves, and what each layer recomputes.
  PlannedRun improved(PlannedRun planned, const Change& change) const {
    if (planned.run.recipe.mesh.pp > 1 || planned.run.recipe.offload.none() ||
        !is_searched_by_layer())
      return planned;
    Change pins;
    for (const OptionValue& value : change.settings())
      if (value.option != "offload" && value.option != "recompute") pins += {value};
    const Resolved run = resolved(pins);
    PlannedRun other = plan_run(run);
    if (!fits(other) || other.step_seconds >= planned.step_seconds) return planned;
    other.changed.insert(other.changed.begin(), pins);
    return other;
  }

  // With what is recomputed searched layer by layer.
  std::optional<PlannedRun> searched(const Candidate& c) const {
    Resolved run = c.run;
    if (run.asked.offload == "auto") run = resolved(c.change + Change{{"offload", "none"}});
    PlannedRun planned = plan_run(run);
    if (!fits(planned)) return std::nullopt;
    planned.changed.insert(planned.changed.begin(), c.change);
    return planned;
  }

  // Where nothing fits.
  PlannedRun plan_smallest() {
    if (!smallest_)
      throw usage_error("no mesh of {} GPUs is possible: {}", run_.options.ranks,
                        rows_.front().why);
    const Candidate& c = *smallest_;
    Change change = c.change;
    if (c.mesh.pp == 1) {
      PlannedRun planned = plan_run(resolved(change));
      planned.changed.insert(planned.changed.begin(), change);
      return planned;
    }
    if (recompute_is_open()) change += {{"recompute", "full"}};
    PlannedRun planned = plan_stages(resolved(change));
    planned.changed = {change};
    return planned;
  }

  // Of the meshes, what is known of each and why it lost; the choice first.
  void finish(PlannedRun& planned) {
    const MeshSizes chosen = mesh_of(planned.run.options);
    std::set<const MeshRow*> bounded;  // of which only the least is known
    for (const Candidate& c : candidates_) {
      MeshRow& row = row_of(c.mesh);
      if (row.whole || row.seconds > 0) continue;
      row.change = c.change;
      const bool refined = c.seconds < kForever;
      if (!refined && c.arena[Space::device] > 0) continue;  // too large, as was said
      row.bytes = refined ? c.arena[Space::device] : 0;
      row.seconds = refined ? c.seconds : c.least;
      if (!refined) bounded.insert(&row);
    }
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
      row.why = slower < 0.05 ? "no faster"
                              : fmt::format("{}{:.1f} % slower",
                                            bounded.contains(&row) ? "at least " : "", slower);
    }
    std::ranges::stable_sort(rows_, {}, [](const MeshRow& row) {
      return std::tuple(!row.why.empty(), row.seconds == 0,
                        row.seconds > 0 ? row.seconds : static_cast<double>(row.bytes));
    });
    planned.meshes = rows_;
  }

  const Resolved& run_;
  MeshCosts costs_;
  std::vector<Candidate> candidates_;
  std::optional<Candidate> smallest_;  // of all that do not fit
  std::vector<MeshRow> rows_;
};

}  // namespace

PlannedRun plan_job(const Resolved& run) {
  if (leaves_mesh_open(run)) return plan_meshes(run);
  if (leaves_stages_open(run)) return plan_given_stages(run);
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

PlannedRun plan_given_stages(const Resolved& run) {
  const MeshSizes given[] = {mesh_of(run.options)};
  PlannedRun planned = plan_meshes(run, given);
  if (fits(planned)) return planned;
  Resolved any = run;  // of as many sequences
  any.asked = changed(run.asked, {{"mesh", ""}, {"tp", 0}, {"pp", 0}});
  const PlannedRun other = plan_meshes(any);
  planned.meshes[0].why = "does not fit";
  if (!fits(other)) return planned;
  planned.meshes.push_back(other.meshes[0]);
  planned.meshes.back().why = "fits";
  return planned;
}

}  // namespace snug

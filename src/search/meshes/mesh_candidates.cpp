#include "search/meshes/mesh_candidates.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/parallel.h"
#include "base/units.h"
#include "techniques/pipeline/pipeline_schedule.h"
#include "techniques/pipeline/virtual_stages.h"

namespace snug {
namespace {

// Estimates of bytes leave out gaps, and what else stages hold: so much may be too much. Where all
// dimensions are searched, something smaller may be found, such as a loss in smaller chunks.
constexpr double kBytesDoubt = 0.02, kSearchedBytesDoubt = 0.15;
// A pipeline also waits where one program ends and the next begins.
constexpr double kStagesSlower = 1.05;
// Where weight gradients fill the pipeline bubble, their inputs stay live: of what a micro-batch
// keeps for backward so much more, if all or nothing is recomputed.
constexpr double kWaitingRecomputed = 0.4, kWaiting = 0.9;

// On the stage that keeps most.
double kept_of(const Recipe& recipe) {
  const double kept = StageSchedule(recipe).kept();
  return recipe.pp_schedule == PipelineSchedule::zero_bubble ? (1 + kWaiting) * kept : kept;
}

}  // namespace

const UniformPolicy* at_least(double share) {
  return std::ranges::find_if(kUniformPolicies,
                              [&](const UniformPolicy& p) { return p.share >= share - 1e-9; });
}

Resolved MeshCandidates::resolved(const Change& change) const {
  return resolve(changed(run_.asked, change), run_.model);
}

bool MeshCandidates::may_fit(const MeshCandidate& c) const {
  const bool searched = c.mesh.pp == 1 && by_layer_ && c.run.recipe.offload.none();
  Limits limits = c.run.limits();
  if (limits[Space::device] < kUnlimited)
    limits[Space::device] += static_cast<int64_t>((searched ? kSearchedBytesDoubt : kBytesDoubt) *
                                                  static_cast<double>(limits[Space::device]));
  return c.smallest.fits_in(limits);
}

MeshShape MeshCandidates::shape_of(const MeshCandidate& c) const {
  return {.stages = c.mesh.pp,
          .micro_batches = c.run.recipe.accum,
          .waits = ideal_wait(c.run.recipe),
          .kept = c.mesh.pp > 1 ? kept_of(c.run.recipe) : 1,
          .layers = run_.model.config().L,
          .tied = run_.model.config().tied};
}

// Sequences of a micro-batch. Where they do not divide a step that was asked for, its last micro-batch
// is smaller.
std::vector<int64_t> MeshCandidates::micro_batches(const MeshSizes& mesh) const {
  const int64_t sequences = ceil_div(run_.options.global_batch, mesh.dp);
  const bool may_be_smaller = run_.asked.global_batch > 0;
  if (const int64_t accum = run_.asked.accum; accum > 0) {
    if (may_be_smaller || sequences % accum == 0) return {ceil_div(sequences, accum)};
    throw usage_error("{} sequences do not split into {} micro-batches", sequences, accum);
  }
  std::vector<int64_t> sizes;
  for (const int64_t batch :
       {int64_t{1}, int64_t{2}, int64_t{4}, int64_t{8}, run_.asked.batch, sequences}) {
    const bool is_new = std::ranges::find(sizes, batch) == sizes.end();
    if (is_new && batch <= sequences && (may_be_smaller || sequences % batch == 0))
      sizes.push_back(batch);
  }
  return sizes;
}

// Ways to share the state.
std::vector<Change> MeshCandidates::ways_to_share(const MeshSizes& mesh) const {
  if (mesh.dp == 1 || run_.asked.zero || run_.asked.shard.given()) return {{}};
  std::vector<Change> ways{{{&Options::zero, ZeroLevel::state}},
                           {{&Options::zero, ZeroLevel::none}}};
  // What levels 2 and 3 gather for the micro-batches of a pipeline is live longer than it saves.
  if (mesh.pp > 1) return ways;
  for (const ZeroLevel zero : {ZeroLevel::gradients, ZeroLevel::parameters})
    ways.push_back({{&Options::zero, zero}});
  const int64_t machine = run_.cost_model.spec().wire.machine;
  // Where matrices take a whole machine, as many machines share what is gathered.
  const bool over_machines = mesh.tp >= machine;
  const int64_t sharers = over_machines ? machine : machine / mesh.tp;
  if (sharers < 2 || mesh.dp <= sharers || mesh.dp % sharers != 0) return ways;
  const Shard hybrid{.kind = Shard::Kind::hybrid, .group = sharers};
  for (const ZeroLevel zero : {ZeroLevel::state, ZeroLevel::gradients, ZeroLevel::parameters})
    if (!over_machines || zero == ZeroLevel::parameters)
      ways.push_back({{&Options::zero, zero}, {&Options::shard, hybrid}});
  return ways;
}

void MeshCandidates::add(const MeshSizes& mesh, const Change& more,
                         const std::function<void(const Error& why)>& said) {
  struct Asked {
    size_t way;  // to share the state
    Change change;
    std::optional<MeshCandidate> candidate = {};
    std::optional<Error> refused = {};
  };
  const auto unless = [](std::optional<Error>& refused, const auto& f) {
    try {
      f();
    } catch (const Error& error) {
      if (error.code() != ExitCode::usage && error.code() != ExitCode::does_not_fit) throw;
      refused = error;
    }
  };
  std::optional<Error> refused;  // the first
  std::vector<Asked> asked;
  unless(refused, [&] {
    for (const int64_t batch : micro_batches(mesh)) {
      const int64_t each = checked_mul(batch, mesh.dp, "sequences of all ranks");
      const int64_t accum = micro_batches_of(run_.options.global_batch, each);
      size_t way = 0;
      for (const Change& share : ways_to_share(mesh)) {
        Change change{
            {&Options::mesh, choice_of(mesh)}, {&Options::batch, batch}, {&Options::accum, accum}};
        change += share + more;
        asked.push_back({.way = way++, .change = std::move(change)});
      }
    }
  });
  // Ways of one micro-batch wait for the same costs: other micro-batches come between them.
  std::vector<Asked*> by_way;
  for (Asked& one : asked) by_way.push_back(&one);
  std::ranges::stable_sort(by_way, {}, &Asked::way);
  for_each_in_parallel(by_way.size(), [&](size_t i) {
    Asked& one = *by_way[i];
    unless(one.refused, [&] {
      MeshCandidate c{.mesh = mesh, .change = one.change, .run = resolved(one.change)};
      require_divisible(c.run.recipe.mesh, run_.model.config().L, c.run.recipe.accum);
      bound(c);
      one.candidate = std::move(c);
    });
  });
  bool some = false;
  for (Asked& one : asked) {
    if (!refused) refused = one.refused;
    if (!one.candidate) continue;
    all_.push_back(*std::move(one.candidate));
    some = true;
  }
  if (!some && refused) said(*refused);
}

Resolved MeshCandidates::with_recompute(const MeshCandidate& c, RecomputePolicy::Kind kind) const {
  Resolved run = c.run;
  if (run.recipe.recompute.kind == RecomputePolicy::Kind::automatic || recompute_is_open())
    run.recipe.recompute = {.kind = kind};
  return run;
}

// If all is recomputed: what weight gradients read of it is live until they are computed.
SpaceBytes MeshCandidates::least_arenas(const MeshCandidate& c, const RankCosts& none,
                                        const RankCosts& full) const {
  MeshShape shape = shape_of(c);
  if (c.run.recipe.pp_schedule != PipelineSchedule::zero_bubble) return arenas_of(full, shape);
  shape.kept *= (1 + kWaitingRecomputed) / (1 + kWaiting);
  return arenas_of(none, shape);
}

// Seconds and bytes that it cannot be below, by what ranks with the same samples do.
void MeshCandidates::bound(MeshCandidate& c) {
  Resolved none = with_recompute(c, RecomputePolicy::Kind::none),
           full = with_recompute(c, RecomputePolicy::Kind::full);
  const Sharding sharding = c.run.recipe.sharding;
  none.recipe.sharding = full.recipe.sharding = {};
  none.recipe.accum = full.recipe.accum = std::max<int64_t>(2, none.recipe.accum);
  const MeshShape shape = shape_of(c);
  const RankCosts &most = costs_.of(none), &least = costs_.of(full);
  c.least = micro_batch_seconds_of(most, shape);
  c.smallest = min(arenas_of(most, shape), least_arenas(c, most, least));
  const int64_t sharers = sharding.group > 0 ? sharding.group : sharding.ranks;
  for (int z = 0; z < sharding.level; ++z) {
    const int64_t bytes = stage_bytes(least.sharable[static_cast<size_t>(z)], shape);
    c.smallest[Space::device] -= bytes - bytes / sharers;
  }
}

// The least that is recomputed so that it fits, and what that takes.
void MeshCandidates::refine(MeshCandidate& c) {
  const RankCosts& none = costs_.of(with_recompute(c, RecomputePolicy::Kind::none));
  const RankCosts& full = costs_.of(with_recompute(c, RecomputePolicy::Kind::full));
  const MeshShape shape = shape_of(c);
  const SpaceBytes most = arenas_of(none, shape), least = least_arenas(c, none, full);
  c.smallest = min(most, least);
  c.arena = most;
  if (!may_fit(c)) return;
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
  const bool by_layer = c.mesh.pp == 1 && by_layer_;
  const double part = by_layer ? c.share * c.share : c.share;
  c.seconds = (c.mesh.pp > 1 ? kStagesSlower : 1) * (fast + part * (slow - fast));
}

double MeshCandidates::least_seconds() const {
  double least = kForever;
  for (const MeshCandidate& c : all_) least = std::min(least, c.least);
  return least;
}

void MeshCandidates::estimate(const std::function<void(const MeshCandidate&)>& does_not_fit,
                              double faster_than) {
  constexpr size_t kAtATime = 8, kMost = 96;
  constexpr size_t kKept = 4;  // the lower bound of those not evaluated exceeds these
  std::erase_if(all_, [&](const MeshCandidate& c) {
    if (may_fit(c)) return false;
    does_not_fit(c);
    return true;
  });
  std::ranges::stable_sort(all_, {}, &MeshCandidate::least);
  for (size_t begin = 0; begin < all_.size(); begin += kAtATime) {
    std::vector<double> known;
    for (size_t i = 0; i < begin; ++i)
      if (all_[i].seconds < kForever) known.push_back(all_[i].seconds);
    std::ranges::sort(known);
    if (begin >= kMost && !known.empty()) break;
    if (all_[begin].least >= faster_than) break;
    if (!by_layer_ && known.size() >= kKept && all_[begin].least > known[kKept - 1]) break;
    const size_t count = std::min(kAtATime, all_.size() - begin);
    for_each_in_parallel(count, [&](size_t i) {
      unless_refused([&] {
        refine(all_[begin + i]);
        return true;
      });
    });
  }
  for (const MeshCandidate& c : all_)
    if (c.is_estimated() && c.seconds == kForever) does_not_fit(c);
  sort();
}

void MeshCandidates::sort() {
  std::ranges::stable_sort(all_, {},
                           [](const MeshCandidate& c) { return std::pair(c.seconds, c.least); });
}

}  // namespace snug

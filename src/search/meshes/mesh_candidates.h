// What a mesh search considers: every mesh with every micro-batch and every way to share the state,
// each with what it is expected to take.
//
//   MeshCandidates candidates(run);
//   candidates.add(mesh, {}, said);      // said(why): it cannot be
//   candidates.estimate(said_of_one);    // the fastest first; said_of_one(candidate): it does not fit
#pragma once

#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "search/meshes/mesh_costs.h"
#include "search/meshes/mesh_search.h"
#include "search/uniform_policies.h"

namespace snug {

// The first that recomputes so much.
const UniformPolicy* at_least(double share);

constexpr double kForever = std::numeric_limits<double>::infinity();

// A mesh with all settled but, where that is open, what is recomputed.
struct MeshCandidate {
  MeshSizes mesh;
  Change change;
  Resolved run;
  double least = 0;           // seconds: ranks with other samples are waited for in none of them
  double seconds = kForever;  // as estimated; forever: not yet, or it does not fit
  SpaceBytes arena;           // of that
  SpaceBytes smallest;        // however much is recomputed
  double share = 0;           // recomputed, of all

  bool is_estimated() const { return arena[Space::device] > 0; }
};

class MeshCandidates {
 public:
  explicit MeshCandidates(const Resolved& run) : run_(run), by_layer_(is_searched_by_layer(run)) {}

  // With `more` changed, too. `said`: why a mesh has none.
  void add(const MeshSizes& mesh, const Change& more,
           const std::function<void(const Error& why)>& said);
  void clear() { all_.clear(); }
  // What none of them can be below, whether it fits or not.
  double least_seconds() const;
  // Best first by what bounds them, until none that is left can be among the fastest, or faster than asked.
  // Then all are in the order of their estimates.
  void estimate(const std::function<void(const MeshCandidate&)>& does_not_fit,
                double faster_than = kForever);

  // Best first by what is estimated, where it is.
  void sort();
  std::span<MeshCandidate> all() { return all_; }
  Resolved resolved(const Change& change) const;
  // Is how much is recomputed for the search to say? Else it is as asked.
  bool recompute_is_open() const { return !run_.asked.recompute; }

 private:
  bool may_fit(const MeshCandidate& c) const;
  MeshShape shape_of(const MeshCandidate& c) const;
  std::vector<int64_t> micro_batches(const MeshSizes& mesh) const;
  std::vector<Change> ways_to_share(const MeshSizes& mesh) const;
  Resolved with_recompute(const MeshCandidate& c, RecomputePolicy::Kind kind) const;
  SpaceBytes least_arenas(const MeshCandidate& c, const RankCosts& none,
                          const RankCosts& full) const;
  void bound(MeshCandidate& c);
  void refine(MeshCandidate& c);

  const Resolved& run_;
  const bool by_layer_;  // is what is recomputed searched layer by layer?
  MeshCosts costs_;
  std::vector<MeshCandidate> all_;
};

}  // namespace snug

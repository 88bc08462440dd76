#include <algorithm>

#include "recipe/mesh_options.h"
#include "search/meshes/mesh_search.h"

namespace snug {
namespace {

// Longer pipelines are not searched: --pp gives them.
constexpr int64_t kMostStages = 16;
// In deeper models all layers recompute alike: a search layer by layer takes minutes there.
constexpr int64_t kSearchedLayers = 40;

std::vector<int64_t> divisors(int64_t n) {
  std::vector<int64_t> all;
  for (int64_t d = 1; d <= n; ++d)
    if (n % d == 0) all.push_back(d);
  return all;
}

}  // namespace

bool leaves_mesh_open(const Resolved& run) {
  return run.options.ranks > 1 && leaves_mesh_open(run.asked);
}

bool is_searched_by_layer(const Resolved& run) { return run.model.config().L <= kSearchedLayers; }

bool leaves_rest_open(const Resolved& run) {
  const Options& o = run.asked;
  const bool is_deep = run.options.ranks > 1 && !is_searched_by_layer(run);
  return !o.gpu.empty() && (run.recipe.mesh.pp > 1 || is_deep) &&
         (!o.recompute || o.accum == 0 || !o.zero);
}

std::vector<MeshSizes> possible_meshes(const Resolved& run) {
  const int64_t ranks = run.options.ranks;
  const int64_t machine = run.cost_model.spec().wire.machine;
  std::vector<MeshSizes> meshes;
  for (const int64_t tp : divisors(ranks)) {
    if (tp > machine) break;
    for (const int64_t pp : divisors(ranks / tp)) {
      if (pp > std::min(kMostStages, run.model.config().L)) break;
      meshes.push_back({.pp = pp, .dp = ranks / tp / pp, .tp = tp});
    }
  }
  return meshes;
}

MeshChoice choice_of(const MeshSizes& mesh) {
  MeshChoice choice;
  if (mesh.pp > 1) choice.pp = mesh.pp;
  if (mesh.dp > 1 || mesh.ranks() == 1) choice.dp = mesh.dp;
  if (mesh.tp > 1) choice.tp = mesh.tp;
  return choice;
}

std::string text(const MeshSizes& mesh) { return text(choice_of(mesh)); }

}  // namespace snug

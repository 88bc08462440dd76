#include "passes/mesh.h"

#include <string>

#include "ops/comm/comm.h"

namespace snug {

std::vector<int> job_ranks_on(std::string_view axis, const Mesh& mesh, const Sharding& sharding) {
  const int64_t stage_ranks = sharding.ranks * mesh.tp;
  const int64_t stage_first = mesh.stage * stage_ranks;
  const int64_t in_stage = place_on_axis(sharding.rank, sharding) * mesh.tp + mesh.part;
  std::vector<int> out;
  if (axis == mesh_axes::kTensor) {
    for (int64_t part = 0; part < mesh.tp; ++part)
      out.push_back(static_cast<int>(stage_first + in_stage - mesh.part + part));
  } else if (axis == mesh_axes::kStages) {
    for (int64_t stage = 0; stage < mesh.pp; ++stage)
      out.push_back(static_cast<int>(stage * stage_ranks + in_stage));
  } else {
    for (const int64_t place : places_on(axis, sharding))
      out.push_back(static_cast<int>(stage_first + place * mesh.tp + mesh.part));
  }
  return out;
}

ops::Collective over_tensor(const Mesh& mesh) {
  return {.axis = std::string(mesh_axes::kTensor), .ranks = mesh.tp};
}

}  // namespace snug

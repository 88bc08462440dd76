// Where a rank is among those of its job: a mesh pp x dp x tp. Pipeline stages are outermost; the ranks
// of one tensor-parallel group are neighbours, on one machine where they have room there.
//
//   const Mesh mesh{.pp = 2, .tp = 2, .stage = 1};
//   const Sharding dp{.ranks = 4, .stride = mesh.tp};
//   job_ranks_on("tp", mesh, dp);   // {8, 9}: the job's ranks that this one multiplies with
//
// The data-parallel axis is a Sharding (techniques/zero/settings.h).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "passes/sharding.h"
#include "settings/mesh.h"

namespace snug {

namespace mesh_axes {
constexpr std::string_view kTensor = "tp", kStages = "pp";
}

// The job's ranks that a collective or message of this rank over that axis is among, in its order.
std::vector<int> job_ranks_on(std::string_view axis, const Mesh& mesh, const Sharding& sharding);

// Collectives among the ranks that have the same stage and data.
ops::Collective over_tensor(const Mesh& mesh);

}  // namespace snug

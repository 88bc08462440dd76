// The fastest mesh that fits: how many stages, ranks with samples of their own, and ranks that share
// each matrix; with the micro-batch, what ranks share (ZeRO) and what backward recomputes.
//
//   if (leaves_mesh_open(run)) PlannedRun planned = plan_meshes(run);   planned.meshes ...
//
// The sequences of a step stay the same. Every mesh is estimated (mesh_costs.h), best first; those that
// are expected to be fastest are planned whole, every stage placed, and the fastest plan that fits is
// the choice.
#pragma once

#include <span>

#include "search/plan_run.h"

namespace snug {

// The plan of all ranks: on the fastest mesh where that is open.
PlannedRun plan_job(const Resolved& run);
// On the mesh that it gives, all ranks with samples of their own where it gives none.
PlannedRun plan_as_given(const Resolved& run);
// The most of any stage.
SpaceBytes arenas_of(const PlannedRun& planned);

// Is it for several GPUs, and says nothing of their mesh?
bool leaves_mesh_open(const Resolved& run);
// Is what is open on the mesh that it gives searched as on any mesh: for GPUs by name? That of a
// pipeline is, and of models that are too deep for a search layer by layer.
bool leaves_rest_open(const Resolved& run);
bool is_searched_by_layer(const Resolved& run);

// Meshes of so many ranks that the model and the machines allow. Some may still be refused.
std::vector<MeshSizes> possible_meshes(const Resolved& run);

// Of all that are possible; or of some. Where nothing fits, the plan is the smallest that was found.
PlannedRun plan_meshes(const Resolved& run);
PlannedRun plan_meshes(const Resolved& run, std::span<const MeshSizes> meshes);

// With the mesh that it gives. Where that does not fit, the second of its meshes is what would.
PlannedRun plan_given_mesh(const Resolved& run);

// "pp=4,dp=4,tp=8"; axes of one are left out.
std::string text(const MeshSizes& mesh);
// What --mesh says of it.
MeshChoice choice_of(const MeshSizes& mesh);

}  // namespace snug

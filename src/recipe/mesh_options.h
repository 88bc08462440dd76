// --mesh, --tp and --pp as numbers.
#pragma once

#include "recipe/resolve.h"

namespace snug {

// For so many ranks; 0: as many as the mesh has. Throws a usage error where they contradict each other
// or the ranks.
MeshSizes mesh_for(const Options& o, int64_t ranks);

// Is there none, so that a plan for several GPUs looks for one?
bool leaves_mesh_open(const Options& o);

// Throws a usage error where a data-parallel rank has less than one sequence of a step.
void require_sequences(const Options& o);

}  // namespace snug

// --mesh, --tp and --pp as numbers.
#pragma once

#include "recipe/resolve.h"

namespace snug {

// For so many ranks; 0: as many as the mesh has. Throws a usage error where they contradict each other
// or the ranks.
MeshSizes mesh_for(const Options& o, int64_t ranks);

}  // namespace snug

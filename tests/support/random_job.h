// A random job over several ranks, by a seed: a recipe and an offload of the other random tests, on a
// model of theirs or on one whose parameters have several blocks, over two to eight ranks.
//
//   const DrawnRankJob job = draw_rank_job(7);
//   const std::vector<Module> ranks = compile_ranks(job);
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"
#include "support/random_recipe.h"

namespace snug {

// `recipe` has the sharding, of rank 0, and the offload.
struct DrawnRankJob : DrawnRecipe {
  std::string short_text;  // what sets jobs apart, for a table
};
DrawnRankJob draw_rank_job(int seed);
// As that over a mesh of up to eight ranks: stages, tensor-parallel ranks or both.
DrawnRankJob draw_mesh_job(int seed);

// A schedule for its stages, by a die of three; interleaved stages take as many micro-batches, and layers
// of the model, as they need. As the text of a job says it: " zero-bubble".
std::string draw_schedule(Recipe& recipe, int64_t die, int64_t& layers);

// The model of a config.json with so many layers, as a file of the running test's.
std::string with_layers(const std::string& config, int64_t layers);

// Every rank's module, compiled, in the order of the job's ranks.
std::vector<Module> compile_ranks(const DrawnRecipe& job);

}  // namespace snug

// A random job over several ranks, by a seed: a recipe and an offload of the other random tests, on a
// model of theirs or on one whose parameters have several blocks, over two to eight ranks.
//
//   const DrawnRankJob job = draw_rank_job(7);
//   const std::vector<Module> ranks = compile_ranks(job);
#pragma once

#include <vector>

#include "ir/program.h"
#include "support/random_recipe.h"

namespace snug {

// `recipe` has the sharding, of rank 0, and the offload.
struct DrawnRankJob : DrawnRecipe {
  std::string short_text;  // what sets jobs apart, for a table
};
DrawnRankJob draw_rank_job(int seed);

// Every rank's module, compiled, in the order of the job's ranks.
std::vector<Module> compile_ranks(const DrawnRecipe& job);

}  // namespace snug

// The virtual stage of an op: neighbouring layers, with what comes before the first layer in the first
// one and what comes after the last in the last. Stages have them in turn, each one of them or,
// interleaved, several: of 2 stages with 2 chunks the first has virtual stages 0 and 2.
//
//   const VirtualStages stages(module, module.program(ProgramRole::training_first), recipe);
//   stages.of(program.ops);  // by op
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/program.h"
#include "settings/recipe.h"

namespace snug {

class VirtualStages {
 public:
  // So that the virtual stage with the most arithmetic has as little as it can: all wait for the
  // largest. Throws what require_divisible does.
  VirtualStages(const Module& module, const Program& training, const Recipe& recipe);

  // By op of a program. A backward op is where the op is that it differentiates.
  std::vector<int64_t> of(std::span<const Op> ops) const;

 private:
  const Module& module_;
  std::vector<int32_t> first_;  // by virtual stage: its first layer
};

// Throws a usage error where there are too few layers for the mesh, or no multiple of as many micro-batches
// as its chunks take.
void require_divisible(const Mesh& mesh, int64_t layers, int64_t micro_batches);

// Cuts a row of costs into so many parts, none of them empty, and the largest sum as small as can be:
// the first of each part.
std::vector<int32_t> balanced_parts(const std::vector<int64_t>& costs, int64_t parts);

}  // namespace snug

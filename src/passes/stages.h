// Which stage of a pipeline runs an op: stages are neighbouring layers, with what comes before the
// first layer in the first stage and what comes behind the last in the last.
//
//   const Stages stages(module, module.program(ProgramRole::training_first), recipe);
//   stages.of(program.ops);      // by op
//   stages.first_layer(2);       // of the third stage
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/program.h"
#include "passes/recipe.h"

namespace snug {

class Stages {
 public:
  // So that the stage with the most arithmetic has as little as it can. Throws a usage error where
  // there are fewer layers than stages.
  Stages(const Module& module, const Program& training, const Recipe& recipe);

  // By op of a program. A backward op is where the op is that it differentiates.
  std::vector<int64_t> of(std::span<const Op> ops) const;
  int32_t first_layer(int64_t stage) const { return first_[static_cast<size_t>(stage)]; }

 private:
  const Module& module_;
  std::vector<int32_t> first_;  // by stage: its first layer
};

// Cuts a row of costs into so many parts, none of them empty, and the largest sum as small as can be:
// the first of each part.
std::vector<int32_t> balanced_parts(const std::vector<int64_t>& costs, int64_t parts);

}  // namespace snug

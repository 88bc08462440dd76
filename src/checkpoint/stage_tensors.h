// The whole model of a pipeline whose stages have parts of it: its tensors, and the stage of each.
#pragma once

#include <map>
#include <string>

#include "checkpoint/checkpoint.h"
#include "recipe/resolve.h"
#include "runtime/job_links.h"

namespace snug {

class StageTensors {
 public:
  // `module`: this rank's. The ranks tell each other what they have.
  StageTensors(const Resolved& run, const RecomputePolicy& recompute, const Module& module,
               JobLinks& job, Part part);

  // All tensors in their order: the module of this rank without a pipeline, of which nothing runs.
  const Module& whole() const { return whole_; }
  // The first stage that has it.
  int64_t stage_of(ValueId value) const;
  // The same value in this rank's module.
  ValueId own(ValueId value) const { return own_.at(whole_[value].name); }

 private:
  Module whole_;
  std::map<std::string, ValueId> own_;    // by name: what is saved of this rank's
  std::map<std::string, int64_t> stage_;  // by name
};

}  // namespace snug

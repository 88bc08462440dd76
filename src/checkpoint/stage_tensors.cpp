#include "checkpoint/stage_tensors.h"

#include "base/error.h"
#include "base/text.h"
#include "compile/compile.h"

namespace snug {
namespace {

Module whole_module(const Resolved& run, const RecomputePolicy& recompute) {
  Recipe recipe = run.recipe;
  recipe.mesh.pp = 1;
  recipe.mesh.stage = 0;
  recipe.recompute = recompute;
  return compile(run.model.config().name, run.model.forward(run.build), recipe,
                 CompilePhase::update);
}

}  // namespace

StageTensors::StageTensors(const Resolved& run, const RecomputePolicy& recompute,
                           const Module& module, JobLinks& job, Part part)
    : whole_(whole_module(run, recompute)) {
  std::vector<std::string> names;
  for (const SavedTensor& tensor : saved_tensors(module, part)) {
    if (own_.emplace(module[tensor.value].name, tensor.value).second)
      names.push_back(module[tensor.value].name);
  }
  const std::vector<std::string> all = job.job().exchange(join(names, "\n"));
  const int64_t of_stage = static_cast<int64_t>(all.size()) / run.recipe.mesh.pp;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    for (const std::string& name : split(all[rank], '\n'))
      stage_.emplace(name, static_cast<int64_t>(rank) / of_stage);
  }
}

int64_t StageTensors::stage_of(ValueId value) const {
  const auto found = stage_.find(whole_[value].name);
  if (found == stage_.end()) throw internal_error("no stage has '{}'", whole_[value].name);
  return found->second;
}

}  // namespace snug

#include "train/stage_pieces.h"

#include "base/error.h"
#include "base/text.h"
#include "train/rank_pieces.h"

namespace snug {
namespace {

Module whole_module(const Resolved& run, const RecomputePolicy& recompute) {
  Recipe recipe = run.recipe;
  recipe.mesh.pp = 1;
  recipe.mesh.stage = 0;
  recipe.recompute = recompute;
  return compile(run.model.config().name, run.model.forward(run.build), recipe, Stage::update);
}

}  // namespace

StagePieces::StagePieces(const Resolved& run, const RecomputePolicy& recompute,
                         const Module& module, ValuePieces& mine, JobLinks& job, Part part)
    : recipe_(run.recipe),
      whole_(whole_module(run, recompute)),
      part_(part),
      mine_(mine),
      module_(module) {
  std::vector<std::string> names;
  for (const SavedTensor& tensor : saved_tensors(module, part)) {
    if (own_.emplace(module[tensor.value].name, tensor.value).second)
      names.push_back(module[tensor.value].name);
  }
  const std::vector<std::string> all = job.job().exchange(join(names, "\n"));
  const int64_t of_stage = static_cast<int64_t>(all.size()) / recipe_.mesh.pp;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    for (const std::string& name : split(all[rank], '\n'))
      stage_.emplace(name, static_cast<int64_t>(rank) / of_stage);
  }
}

int64_t StagePieces::stage_of(const Value& value) const {
  const auto found = stage_.find(value.name);
  if (found == stage_.end()) throw internal_error("no stage has '{}'", value.name);
  return found->second;
}

PiecesOf StagePieces::pieces_of(Communicator& group) {
  return [this, &group](const ValuePart& part, const LookAtPiece& visit) {
    const Value& value = whole_[part.value];
    const bool is_shard = value.shard_of.rank() > 0;
    const int64_t stage = stage_of(value), ranks = recipe_.sharding.ranks;
    for (int64_t i = 0; i < (is_shard ? ranks : 1); ++i) {
      const ShardPart of = is_shard ? in_shard(value, part, static_cast<int>(i))
                                    : ShardPart{.offset = part.offset, .bytes = part.bytes};
      if (of.bytes == 0) continue;
      const int64_t rank = (stage * ranks + i) * recipe_.mesh.tp;
      if (rank == 0) {
        mine_.look({own(value), of.offset, of.bytes}, visit);
      } else {
        receive_pieces(group, static_cast<int>(rank), of.bytes, visit);
      }
    }
  };
}

void StagePieces::send(Communicator& group) {
  if (recipe_.sharding.copy() != 0 || recipe_.mesh.part != 0) return;  // others have the same
  for (const SavedTensor& tensor : saved_tensors(whole_, part_)) {
    const Value& value = whole_[tensor.value];
    if (stage_of(value) != recipe_.mesh.stage) continue;
    const bool is_shard = value.shard_of.rank() > 0;
    if (!is_shard && recipe_.sharding.rank != 0) continue;
    const ShardPart of = is_shard ? in_shard(module_[own(value)], tensor.part())
                                  : ShardPart{.offset = tensor.offset, .bytes = tensor.bytes};
    if (of.bytes > 0) send_pieces(group, mine_, {own(value), of.offset, of.bytes});
  }
}

}  // namespace snug

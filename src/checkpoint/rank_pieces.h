// Whole values on rank 0, from wherever the ranks have their shards and parts: what a model is
// saved from, piece by piece.
//
//   RankPieces ranks(module, pieces, group, recipe);
//   save_model(module, over_ranks(ranks), options);   // rank 0
//   ranks.send(part);                                 // the others that have the first copy
#pragma once

#include <functional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "checkpoint/stage_tensors.h"
#include "comm/communicator.h"
#include "settings/recipe.h"

namespace snug {

class RankPieces {
 public:
  // `module` has all tensors; of a pipeline it is that of `stages`. `group` moves bytes of the
  // host, among all ranks of the job.
  RankPieces(const Module& module, ValuePieces& mine, Communicator& group, const Recipe& recipe,
             const StageTensors* stages = nullptr)
      : module_(module),
        mine_(mine),
        group_(group),
        stages_(stages),
        mesh_(recipe.mesh),
        sharding_(recipe.sharding) {}

  // On rank 0: bytes of a whole value, while the others send.
  void look(const ValuePart& part, const LookAtPiece& visit);
  // On the others: of the model's or the adapter's tensors, in their order.
  void send(Part which);

 private:
  void look_at_boxes(const ValuePart& part, const LookAtPiece& visit);
  void send_boxes(const ValuePart& part);
  int64_t shards_of(const Value& value) const {
    return value.shard_of.rank() > 0 ? sharding_.sharers() : 1;
  }
  int64_t stage_of(ValueId value) const {
    return stages_ != nullptr ? stages_->stage_of(value) : 0;
  }
  ValueId own(ValueId value) const { return stages_ != nullptr ? stages_->own(value) : value; }
  // The rank of the job that has that shard of that part; 0 is this rank.
  int rank_of(ValueId value, int64_t shard, int64_t part) const {
    return static_cast<int>((stage_of(value) * sharding_.ranks + shard) * mesh_.tp + part);
  }
  // fn(shard, part) of all that have some of a value that tensor ranks cut.
  template <typename Fn>
  void for_holders(const Value& value, const Fn& fn) const {
    for (int64_t shard = 0; shard < shards_of(value); ++shard)
      for (int64_t part = 0; part < mesh_.tp; ++part) fn(shard, part);
  }

  const Module& module_;
  ValuePieces& mine_;
  Communicator& group_;
  const StageTensors* stages_;
  Mesh mesh_;
  Sharding sharding_;
};

PiecesOf over_ranks(RankPieces& ranks);

// The group that a model is saved through.
constexpr const char* kModelGroup = "model";

// Saves what was trained to --out: rank 0 writes, the others send what it does not have. `job`:
// none where there is no other rank. `doing` is told how far it is.
void save_from_ranks(const Resolved& run, const RecomputePolicy& recompute, const Module& module,
                     ValuePieces& mine, JobLinks* job,
                     const std::function<void(const std::string&)>& doing);

}  // namespace snug

// A model that the stages of a pipeline have between them, as one: what it is saved from, piece by piece.
//
//   StagePieces stages(run, recompute, module, pieces, job, part);   // every rank
//   if (job.is_first()) save_trained(run, stages.whole(), stages.pieces_of(), ...);
//   else stages.send();
#pragma once

#include <map>
#include <string>

#include "passes/passes.h"
#include "recipe/resolve.h"
#include "train/checkpoint.h"
#include "train/job_links.h"

namespace snug {

class StagePieces {
 public:
  // `mine`: this rank's values, of `module`. The ranks tell each other what they have.
  StagePieces(const Resolved& run, const RecomputePolicy& recompute, const Module& module,
              ValuePieces& mine, JobLinks& job, Part part);

  // All tensors in their order: the module of one rank without a pipeline, of which nothing runs.
  const Module& whole() const { return whole_; }
  // Of these, on rank 0, while the others call `send`.
  PiecesOf pieces_of(Communicator& group);
  void send(Communicator& group);

 private:
  int64_t stage_of(const Value& value) const;
  ValueId own(const Value& value) const { return own_.at(value.name); }

  const Recipe& recipe_;
  Module whole_;
  Part part_;
  ValuePieces& mine_;
  const Module& module_;
  std::map<std::string, ValueId> own_;    // by name: what is saved of this rank's
  std::map<std::string, int64_t> stage_;  // by name: the first that has it
};

}  // namespace snug

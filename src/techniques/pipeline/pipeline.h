// A pipeline: the layers are cut into stages (techniques/pipeline/virtual_stages.h), one for each rank of the axis "pp",
// and micro-batches go through them one after another (techniques/pipeline/pipeline_schedule.h).
//
// All messages are between neighbours; where stages have several chunks of layers, the first one follows
// the last. They run on lanes of their own, one for each direction, and another for every second
// boundary: so a stage takes from one neighbour while it gives to the other.
#pragma once

#include "ir/builder.h"
#include "ops/comm/comm.h"
#include "passes/gradient_squares.h"
#include "settings/recipe.h"

namespace snug {

// This rank's stage of training and evaluation: its ops, its parameters, and messages for what comes
// from other stages or goes there. What the norm of all gradients needs of others is received at the
// beginning of the program `update`. graph -> graph.
void cut_into_stages(Module& module, const Recipe& recipe);

// The stage's micro-batches in the order of the pipeline, in place of `accumulate`. What forward keeps
// for backward has a place for each micro-batch that is under way. graph -> graph.
void pipeline_order(Module& module, const Recipe& recipe);

// Gradients that two stages have a part of, and losses of evaluation: after the sums over
// data-parallel ranks. graph -> graph.
void share_between_stages(Module& module, const Recipe& recipe);

// The loss that `own` has on the last stage becomes that of every stage, at the program's end.
void share_loss(Builder& b, ValueId own, const Recipe& recipe);

// This stage's sums of squares, and those of all others, in the order of the virtual_stages.
std::vector<ValueId> squares_of_stages(Builder& b, const std::vector<Squares>& own,
                                       const Recipe& recipe);

// --- messages ----------------------------------------------------------------------------------

enum class Way : uint8_t { up, down };  // to the next stage, to the one before

// One end of a message between this stage and its neighbour.
struct StageLink {
  const Recipe& recipe;
  Way way = Way::up;

  bool has_source() const;  // does something come from there?
  bool has_target() const;  // has it somewhere to go?
  ops::Message from(int64_t seq) const { return message(/*sends=*/false, seq); }
  ops::Message to(int64_t seq) const { return message(/*sends=*/true, seq); }

 private:
  ops::Message message(bool sends, int64_t seq) const;
};

}  // namespace snug

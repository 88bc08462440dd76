// The update as a program of its own: global norm and clipping over all gradients, then each
// parameter; or, folded, all but the layers' own, which the next step updates on its way. Where
// weights come first, it is the end of the last micro-batches' program. A norm or
// a loss that is not finite turns the whole update off, and the optimizer's own step count with it;
// a dynamic loss scale then shrinks.
#include "techniques/optimizer/optimizer.h"

#include <algorithm>
#include <map>

#include "ir/builder.h"
#include "ops/optimizer/loss_scale.h"
#include "passes/backward_squares.h"
#include "passes/gradient_squares.h"
#include "passes/shared_names.h"
#include "passes/updates.h"
#include "techniques/optimizer/fold_updates.h"
#include "techniques/pipeline/pipeline.h"

namespace snug {
namespace {

void adjust_scale(Builder& b, const LossScale& p, ValueId finite) {
  Module& module = b.module();
  b.set_layer(kNoLayer);
  const ValueId clean = add_shared(module, "loss_scale.clean", {Dtype::i64, {}}, Category::buffers,
                                   Scope::persistent);
  ops::adjust_loss_scale(b, "loss_scale.next",
                         {.loss_scale = module.find_shared(shared_names::kLossScale),
                          .clean = clean,
                          .finite = finite,
                          .growth = p.growth,
                          .backoff = p.backoff,
                          .interval = p.interval,
                          .floor = p.floor});
}

// What the program's ops leave of a shared value: its last version, or the value itself where none of
// them writes it.
std::map<ValueId, ValueId> last_versions(const Module& module, const Program& program) {
  std::map<ValueId, ValueId> last;
  for (const Op& op : program.ops) {
    for (const ValueId id : op.outputs) last[module.root(id)] = id;
  }
  return last;
}

}  // namespace

void optimizer(Module& module, const Recipe& recipe) {
  const Updates updates(module, recipe);
  const std::map<ValueId, ValueId> sums = sum_squares_in_backward(module, updates);
  // A search asks about the update alone: then there is nothing to fold it into.
  const bool fold = recipe.fold_update && module.program_index(ProgramRole::training_first) >= 0 &&
                    std::ranges::any_of(updates.trained(), [&](const Updates::Trained& t) {
                      return folds(module, updates, t);
                    });
  const bool weights_first = fold && updates_weights_first(recipe);
  Builder b(module, weights_first ? last_training_program(module) : ProgramRole::update);
  b.set_phase(Phase::update);
  const std::map<ValueId, ValueId> written = last_versions(module, b.program());
  const auto now = [&](ValueId id) { return written.contains(id) ? written.at(id) : id; };
  // After backward they are one short op: what comes next is prefetched before it.
  const std::vector<ValueId> squares = squares_of_stages(
      b,
      GradientSquares(
          b, updates,
          {.summed = sums, .now = now, .in_layers = !weights_first, .mesh = recipe.mesh})
          .all(),
      recipe);
  b.set_layer(kNoLayer);
  ValueId loss = now(module.find_shared(shared_names::kLoss));
  if (loss.valid() && module[loss].type.shape.rank() > 0)  // a sum over micro-batches
    loss = b.view(loss, "loss.summed", {}, 0);
  const ops::Clip clip = updates.clip(b, "norm.clip", squares, recipe.clip, loss);
  updates.bind_norm(clip.norm);
  const ValueId step = updates.advance(b, clip.finite);
  const Updates::Numbers numbers = updates.numbers(step, clip);
  for (const Updates::Trained& t : updates.trained()) {
    const bool first = weights_first && updates.weight_is_first(t);
    if (fold && folds(module, updates, t) && !first) continue;
    Updates::Trained as_is = t;
    as_is.grad = updates.shaped(b, t, now(t.grad));
    if (first) {
      for (const Updates::Slice& slice : updates.slices_of(t))
        emit_weight(b, updates, as_is, slice, numbers);
    } else {
      updates.emit_all(b, as_is, numbers);
    }
  }
  if (recipe.loss_scale.dynamic) adjust_scale(b, recipe.loss_scale, clip.finite);
  if (!weights_first) module.step.push_back({1, {b.program().name}});
  if (fold) fold_updates(b, updates, numbers, recipe.step_only);
}

}  // namespace snug

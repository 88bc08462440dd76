// The update as a program of its own: global norm and clipping over all gradients, then each
// parameter; or, folded, all but the layers' own, which the next step updates on its way. A norm or
// a loss that is not finite turns the whole update off, and the optimizer's own step count with it;
// a dynamic loss scale then shrinks.
#include <algorithm>

#include "ir/builder.h"
#include "ops/optimizer/loss_scale.h"
#include "passes/backward_squares.h"
#include "passes/fold_updates.h"
#include "passes/updates.h"

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

}  // namespace

void optimizer(Module& module, const Recipe& recipe) {
  const Updates updates(module, recipe);
  const std::map<ValueId, ValueId> sums = sum_squares_in_backward(module, updates);
  // A search asks about the update alone: then there is nothing to fold it into.
  const bool fold = recipe.fold_update && module.program_index(ProgramRole::training_first) >= 0 &&
                    std::ranges::any_of(updates.trained(), [&](const Updates::Trained& t) {
                      return folds(module, updates, t);
                    });
  Builder b(module, ProgramRole::update);
  b.set_phase(Phase::update);
  std::vector<ValueId> squares;  // in a row: together they are few launches
  for (const Updates::Trained& t : updates.trained()) {
    b.set_layer(module[t.param].layer);
    const auto sum = sums.find(t.grad);
    squares.push_back(sum != sums.end()
                          ? sum->second
                          : ops::sum_squares(b, "norm." + t.name + ".squares", t.grad));
  }
  b.set_layer(kNoLayer);
  const ValueId loss = module.find_shared(shared_names::kLoss);
  const ops::Clip clip = updates.clip(b, "norm.clip", squares, recipe.clip, loss);
  updates.bind_norm(clip.norm);
  const ValueId step = updates.advance(b, clip.finite);
  const Updates::Numbers numbers = updates.numbers(step, clip);
  for (const Updates::Trained& t : updates.trained()) {
    if (fold && folds(module, updates, t)) continue;
    for (const Updates::Slice& slice : updates.slices_of(t)) updates.emit(b, t, slice, numbers);
  }
  if (recipe.loss_scale.dynamic) adjust_scale(b, recipe.loss_scale, clip.finite);
  module.step.push_back({1, {b.program().name}});
  if (fold) fold_updates(b, updates, numbers);
}

}  // namespace snug

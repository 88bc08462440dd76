// The whole compile, in order. Each line says why it stands where it stands.
#include "passes/passes.h"

namespace snug {
namespace {

constexpr std::string_view kTraining = program_name(ProgramRole::training_first);

}  // namespace

Module differentiated(std::string name, const ForwardBuilder& forward, const Recipe& recipe) {
  Module module{.name = std::move(name)};

  // Training and evaluation share parameters and inputs; only training drops out.
  const Forward training = add_forward(module, forward, ProgramRole::training_first);
  const Forward evaluation = add_forward(module, forward, ProgramRole::evaluation);

  // Before backward exists: what flows back then has the right type from the start.
  precision(module, recipe.precision);
  bind_loss(module, program_name(ProgramRole::evaluation), evaluation.loss);

  // Backward first: every later pass wants to see what is kept for it.
  autodiff(module, kTraining, training, recipe);

  // A loss whose backward op computes it anyway leaves its forward op without readers; drop it
  // before it is copied.
  eliminate_dead(module);

  // What a backward op can make as it goes need not be kept at all, so it is no choice of
  // recompute's.
  if (recipe.fused_recompute) fuse_recompute(module, kTraining);
  return module;
}

void keep(Module& module, const Recipe& recipe) {
  // What is kept for backward is decided once, before the pass is copied. Forward ops whose results
  // only backward wanted are repeated there now, and dead here.
  recompute(module, kTraining, values_to_keep(module, kTraining, recipe.recompute));
  eliminate_dead(module);

  // Only what recompute left to be kept is worth squeezing; repeats read what is restored.
  if (recipe.compress != CompressKind::none) compress(module, kTraining);
}

void complete(Module& module, const Recipe& recipe) {
  // Micro-batches copy the finished pass, so that the copy differs in nothing but the accumulating
  // writes.
  accumulate(module, recipe);

  // The update reads gradients that all micro-batches have written.
  if (recipe.update_in_backward) {
    update_in_backward(module, recipe);
  } else {
    optimizer(module, recipe);
  }
}

void lay_out(Module& module, Backend backend) {
  // In-place only after the last pass that adds readers: granting it is a statement about all of
  // them.
  in_place(module);

  // Lifetimes last: they are facts about the final order.
  schedule(module, backend);
}

Module compile(std::string name, const ForwardBuilder& forward, const Recipe& recipe) {
  Module module = differentiated(std::move(name), forward, recipe);
  keep(module, recipe);
  complete(module, recipe);
  lay_out(module, recipe.backend);
  return module;
}

}  // namespace snug

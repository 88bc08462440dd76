// The whole compile, in order. Each line says why it comes where it comes.
#include "compile/compile.h"

#include "ir/builder.h"
#include "ops/basic/cast.h"
#include "passes/mesh.h"
#include "passes/passes.h"
#include "passes/shared_names.h"
#include "techniques/accumulate/accumulate.h"
#include "techniques/adapters/adapters.h"
#include "techniques/base/store_base.h"
#include "techniques/compress/compress.h"
#include "techniques/host_update/update_on_host.h"
#include "techniques/offload/offload.h"
#include "techniques/optimizer/optimizer.h"
#include "techniques/pipeline/pipeline.h"
#include "techniques/precision/precision.h"
#include "techniques/recompute/recompute.h"
#include "techniques/tensor/tensor_parallel.h"
#include "techniques/update_in_backward/update_in_backward.h"
#include "techniques/zero/zero.h"

namespace snug {
namespace {

constexpr std::string_view kTraining = program_name(ProgramRole::training_first);
constexpr std::string_view kEvaluation = program_name(ProgramRole::evaluation);

Module differentiate(std::string name, const ForwardBuilder& forward, const Recipe& recipe) {
  Module module{.name = std::move(name)};

  // Training and evaluation share parameters and inputs; only training drops out.
  Forward training = add_forward(module, forward, ProgramRole::training_first);
  Forward evaluation = add_forward(module, forward, ProgramRole::evaluation);

  // Before anything is made of the forward pass: what ranks share is smaller from the start.
  training = tensor_parallel(module, kTraining, training, recipe.mesh);
  evaluation = tensor_parallel(module, kEvaluation, evaluation, recipe.mesh);

  // First: what is frozen needs no gradient, and adapters are parameters like others.
  adapters(module, recipe.adapters);

  // Before backward exists: what flows back then has the right type from the start.
  precision(module, recipe.precision);
  bind_loss(module, kEvaluation, evaluation.loss);

  // Backward first: every later pass wants to see what is kept for it.
  autodiff(module, kTraining, training, recipe);

  // Before weight gradients are moved to where their inputs are recomputed.
  if (recipe.adapters.on()) adapter_gradients_first(module, kTraining);

  // A loss whose backward op computes it anyway leaves its forward op without readers; drop it
  // before it is copied.
  eliminate_dead(module);

  // What a backward op recomputes on its way need not be kept at all, so it is no choice of
  // recompute's.
  if (recipe.fused_recompute) fuse_recompute(module, kTraining);

  // Backward reads weights, too, and makes its own copies of them.
  store_base(module, recipe.base);
  return module;
}

void keep(Module& module, const Recipe& recipe) {
  // What is kept for backward is decided once, before the program is copied. Forward ops whose
  // results only backward wanted are repeated there now, and dead here.
  recompute(module, kTraining, values_to_keep(module, kTraining, recipe.recompute));
  eliminate_dead(module);

  // Only what recompute left to be kept is worth compressing; repeats read what is restored.
  if (recipe.compress != CompressKind::none) compress(module, kTraining);
}

// The program of one micro-batch becomes those of a step.
void micro_batches(Module& module, const Recipe& recipe) {
  // What is kept is decided for all layers alike, before each stage takes its own.
  if (recipe.mesh.pp > 1) cut_into_stages(module, recipe);
  // Stages know ops by what they differentiate; micro-batches keep what ops make in the end.
  lower_tensor_sums(module, recipe.mesh);
  recipe.mesh.pp > 1 ? pipeline_order(module, recipe) : accumulate(module, recipe);
}

// After micro-batches are added up, before anything works on sums or on shards.
void share(Module& module, const Recipe& recipe) {
  sum_over_ranks(module, recipe);
  sum_over_tensor_ranks(module, recipe);
  share_between_stages(module, recipe);
  shard_parameters(module, recipe);
}

void update(Module& module, const Recipe& recipe) {
  // The update reads gradients that all micro-batches have written.
  if (recipe.update_in_backward) {
    update_in_backward(module, recipe);
  } else {
    optimizer(module, recipe);
  }
}

void offload(Module& module, const Recipe& recipe) {
  // First: what an update uses in the space where it is needs no copy.
  update_on_host(module, recipe);
  offload_values(module, recipe);
}

// To the shared value that is read: as fp32, whatever the model computes in.
void bind_logits(Module& module, ValueId logits) {
  const Type type{Dtype::f32, module[logits].type.shape};
  const ValueId target =
      add_shared(module, shared_names::kLogits, type, Category::buffers, Scope::step);
  if (module[logits].type != type) {
    Builder builder(module, generation::kDecode);
    logits = ops::cast(builder, "logits.cast", logits, Dtype::f32);
  }
  module[logits].base = target;
  module[logits].category = Category::buffers;
}

struct PhaseOfCompile {
  CompilePhase phase;
  void (*run)(Module& module, const Recipe& recipe);
};
constexpr PhaseOfCompile kPhases[] = {
    {CompilePhase::keep, keep},
    // Micro-batches copy the finished program, so that the copy differs in nothing but the
    // accumulating writes.
    {CompilePhase::accumulate, micro_batches},
    {CompilePhase::ranks, share},
    {CompilePhase::update, update},
    // Once every access is there, and every program.
    {CompilePhase::offload, offload},
    {CompilePhase::lay_out, [](Module& module, const Recipe& recipe) { lay_out(module, recipe); }},
};

}  // namespace

Module compile(std::string name, const ForwardBuilder& forward, const Recipe& recipe,
               CompilePhase last) {
  Module module = differentiate(std::move(name), forward, recipe);
  continue_compile(module, recipe, CompilePhase::keep, last);
  return module;
}

Module compile_evaluation(std::string name, const ForwardBuilder& forward, const Recipe& recipe) {
  Module module{.name = std::move(name)};
  Forward evaluation = add_forward(module, forward, ProgramRole::evaluation);
  evaluation = tensor_parallel(module, kEvaluation, evaluation, recipe.mesh);
  adapters(module, recipe.adapters);
  precision(module, recipe.precision);
  bind_loss(module, kEvaluation, evaluation.loss);
  store_base(module, recipe.base);

  // What only backward would read, statistics of norms and rows, is not made.
  eliminate_dead(module);
  module.step = {{1, {std::string(kEvaluation)}}};
  share(module, recipe);
  continue_compile(module, recipe, CompilePhase::offload);
  return module;
}

Module compile_generation(std::string name, const CachedForwardBuilder& forward,
                          int64_t prefill_tokens, const Recipe& recipe) {
  Module module{.name = std::move(name)};
  if (prefill_tokens > 0) forward(module, generation::kPrefill, prefill_tokens, /*logits=*/false);
  const ValueId logits = forward(module, generation::kDecode, 1, /*logits=*/true);
  for (Program& program : module.programs) program.role = ProgramRole::evaluation;

  adapters(module, recipe.adapters);

  // The caches become what the parameters are; logits are read as fp32 whatever that is.
  precision(module, recipe.precision);
  bind_logits(module, logits);
  store_base(module, recipe.base);

  // After the last keys and values nothing of `prefill` is read.
  eliminate_dead(module);
  module.step = {{1, {generation::kDecode}}};
  continue_compile(module, recipe, CompilePhase::offload);
  return module;
}

Orders lay_out(Module& module, const Recipe& recipe) {
  // Lanes when all copies are there, those that recompute has cloned too.
  assign_lanes(module);

  // In-place only after the last pass that adds readers: granting it is a statement about all of
  // them.
  in_place(module);

  // Lifetimes last: they are facts about the final order.
  return schedule(module, recipe.backend);
}

void continue_compile(Module& module, const Recipe& recipe, CompilePhase first, CompilePhase last) {
  for (const PhaseOfCompile& p : kPhases) {
    if (first <= p.phase && p.phase <= last) p.run(module, recipe);
  }
}

}  // namespace snug

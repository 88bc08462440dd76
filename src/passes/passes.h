// Passes: functions from program to program, one file each. `compile` is the whole story, top to
// bottom.
//
//   Module module = compile("gpt2", model.forward(options), recipe);   // at level step
//   place(module);                                                     // at level placed
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "ir/forward.h"
#include "ir/order.h"
#include "settings/recipe.h"

namespace snug {

// Names of the shared values that the passes add and the training loop feeds or reads. All are
// scalars.
namespace shared_names {
constexpr const char* kLossGrad = "dloss";        // f32, fed: 1 / the step's count of targets
constexpr const char* kLossScale = "loss_scale";  // f32, persistent: what dloss is multiplied by
constexpr const char* kLoss = "loss_sum";         // f32, read: the sum over the step's targets
constexpr const char* kLearningRate = "lr";       // f32, fed
constexpr const char* kGradNorm = "grad_norm";    // f32, read
constexpr const char* kLogits = "logits_out";     // f32, read: [1,1,V], of generation
constexpr const char* kUpdates = "updates";       // i64, persistent: optimizer steps taken

// Inputs that all micro-batches of a step read.
constexpr std::array<std::string_view, 4> kOfStep{kLossGrad, kLearningRate, "seed", "step"};
}  // namespace shared_names

// An input that each micro-batch has of its own: what the model declares, and the number of its first
// sample.
bool is_of_micro_batch(const Value& value);

// Where a program takes several micro-batches at once: the name of the input of one of them.
std::string micro_batch_input(std::string_view name, int64_t micro_batch);

// The stages of compile, in their order.
enum class Stage : uint8_t {
  differentiate,  // training with its backward, and evaluation
  keep,           // what forward keeps for backward: recompute, compression
  accumulate,     // micro-batches
  ranks,          // sums over them, and what each has of the whole
  update,
  homes,   // what lives elsewhere is brought and put back
  lay_out  // bytes shared in place, scratch, lifetimes
};

// From the model's forward pass up to and with the stage `last`.
Module compile(std::string name, const ForwardBuilder& forward, const Recipe& recipe,
               Stage last = Stage::lay_out);

// Evaluation alone: the forward pass and nothing of training. Parameters have no masters, gradients
// or optimizer states, nothing is kept for backward, and a step is one run of the program `eval`.
Module compile_evaluation(std::string name, const ForwardBuilder& forward, const Recipe& recipe);

// Generation, as two programs that share parameters, keys and values: `prefill` takes so many tokens
// and gives nothing (0: there is none), `decode` takes one token and gives the logits of the next.
// A step is one run of `decode`.
Module compile_generation(std::string name, const CachedForwardBuilder& forward,
                          int64_t prefill_tokens, const Recipe& recipe);
namespace generation {
constexpr const char* kPrefill = "prefill";
constexpr const char* kDecode = "decode";
}  // namespace generation

// The stages `first` to `last` on a module that compile has begun: a search tries many ends of one
// beginning. What it does not ask about, the update for example, it may leave out.
void continue_compile(Module& module, const Recipe& recipe, Stage first,
                      Stage last = Stage::lay_out);

// The last stage for those who ask for the orders of the programs, too.
Orders lay_out(Module& module, const Recipe& recipe);

// Freezes the model's parameters and adds low-rank adapters beside its linear layers
// (passes/adapters). Before backward exists. Throws a usage error where a target is in no layer.
// graph -> graph.
void adapters(Module& module, const Adapters& adapters);

// Sets the type that the model computes in: parameters, what it keeps beside them (keys and values),
// activations and what flows back. Statistics and losses stay fp32. graph -> graph.
void precision(Module& module, Dtype dtype);

// Appends the backward pass to `program`. Every trainable parameter p gets a gradient grad.p,
// carried through the step; the loss goes to the shared value "loss_sum". graph -> graph.
void autodiff(Module& module, std::string_view program, Forward forward, const Recipe& recipe = {});

// Lets the GEMM of a frozen layer that narrows add to the gradient that its adapter makes of the same
// value, not the other way round. graph -> graph.
void adapter_gradients_first(Module& module, std::string_view program);

// Binds a forward-only program's loss to the shared value "loss_sum". graph -> graph.
void bind_loss(Module& module, std::string_view program, ValueId loss);

// Lets backward ops recompute cheap forward results on the way that forward would otherwise have
// kept (OpDef::fused_recompute). Results stay the same bit for bit. graph -> graph.
void fuse_recompute(Module& module, std::string_view program);

// Quantizes the frozen weights of the layers; every reader has its own copy dequantized just before.
// graph -> graph.
void store_base(Module& module, BaseKind kind);

// Recomputes the forward values that are not kept (by value id) just before their first use in
// backward. Results stay the same bit for bit. graph -> graph.
void recompute(Module& module, std::string_view program, const std::vector<bool>& keep);

// Stores what forward keeps for backward as int8 in between, where no reader needs it exactly. The
// loss of a step stays the same; gradients change by what int8 rounds off. graph -> graph.
void compress(Module& module, std::string_view program);

// Micro-batches: micro_first overwrites gradients and loss, micro_next (a copy of it) adds to them;
// each takes as many micro-batches through the layers as the recipe says.
// Where backward or its end updates, the last micro-batches are a program of their own, micro_last.
// graph -> graph.
void accumulate(Module& module, const Recipe& recipe);

// Sums gradients and losses over the ranks of the job, or over micro-batches apart (Recipe::sharding,
// sums_apart). Gradients of which a rank has only its shard become that. graph -> graph.
void sum_over_ranks(Module& module, const Recipe& recipe);

// Parameters of which a rank has only its shard become that; what ops read is a whole that `homes`
// gathers. graph -> graph.
void shard_parameters(Module& module, const Recipe& recipe);

// Adds the program `update`: global norm, clipping, and the recipe's optimizer on every trainable
// parameter; masters, optimizer states, and the program `load` where there are masters. graph ->
// graph.
void optimizer(Module& module, const Recipe& recipe);

// The same without a program of its own: each parameter is updated in backward as soon as its
// gradient is complete. Nothing may wait for the norm of all gradients: no clipping, no dynamic
// loss scale. graph -> graph.
void update_in_backward(Module& module, const Recipe& recipe);

// Moves the updates that the recipe says to the host's memory, where their state is at home, and
// copies what they use of the device there and back. Results stay the same bit for bit. Before
// `homes`. graph -> graph.
void update_on_host(Module& module, const Recipe& recipe);

// Moves the values that the recipe offloads to their home, and copies them to the device and back
// around their uses, in every program. Results stay the same bit for bit. graph -> graph.
void homes(Module& module, const Recipe& recipe);

// Gives every op its lane, by what it does: copies into the device and out of it, to and from disk,
// what runs on the host, and the rest. graph -> graph.
void assign_lanes(Module& module);

// Removes ops whose results nobody reads. graph -> graph.
void eliminate_dead(Module& module);

// Lets an op write into an input's bytes where its OpDef grants it and nobody reads them
// afterwards. graph -> graph.
void in_place(Module& module);

// Gives every op its scratch and every value its lifetime. Returns the orders that say so.
// graph -> step.
Orders schedule(Module& module, Backend backend);

}  // namespace snug

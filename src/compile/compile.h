// From a model's forward pass to a planned step: every pass, in the one order that compile.cpp states.
//
//   Module module = compile("gpt2", model.forward(options), recipe);   // at level step
//   place(module);                                                     // at level placed
#pragma once

#include <cstdint>
#include <string>

#include "ir/forward.h"
#include "ir/order.h"
#include "settings/recipe.h"

namespace snug {

// The phases of compile, in their order.
enum class CompilePhase : uint8_t {
  differentiate,  // training with its backward, and evaluation
  keep,           // what forward keeps for backward: recompute, compression
  accumulate,     // micro-batches
  ranks,          // sums over them, and what each has of the whole
  update,
  offload,  // copies of what is not resident on the device
  lay_out   // bytes shared in place, scratch, lifetimes
};

// From the model's forward pass up to and with the phase `last`.
Module compile(std::string name, const ForwardBuilder& forward, const Recipe& recipe,
               CompilePhase last = CompilePhase::lay_out);

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

// The phases `first` to `last` on a module that compile has begun: a search tries many ends of one
// beginning. What it does not ask about, the update for example, it may leave out.
void continue_compile(Module& module, const Recipe& recipe, CompilePhase first,
                      CompilePhase last = CompilePhase::lay_out);

// The last phase, which also gives the orders of the programs.
Orders lay_out(Module& module, const Recipe& recipe);

}  // namespace snug

// What the frames of a stack say: in which part of a step it was, and whose line it is.
#pragma once

#include <string>
#include <vector>

#include "pytorch/snapshot.h"

namespace snug::pytorch {

// A part of a step. `bare`: there are no frames.
enum class Phase : uint8_t { bare, script, setup, forward, backward, optimizer };

struct StackFacts {
  Phase phase = Phase::bare;
  bool workspace = false;   // of a library: cuBLAS, cuDNN
  bool loss = false;        // in a function that computes one
  bool zero_grad = false;   // gradients are dropped
  bool recomputed = false;  // forward again, for backward
  bool casts = false;       // a weight is copied to another type (autocast)
  bool weighted = false;    // in a module with a weight: linear, convolution, embedding
  std::string label;        // "Linear, modeling_gpt2.py:312 forward"
};

// One for each stack of the snapshot.
std::vector<StackFacts> facts_of_stacks(const Snapshot& snapshot);

// "modeling_gpt2.py:312 forward"
std::string frame_text(const Frame& frame);

}  // namespace snug::pytorch

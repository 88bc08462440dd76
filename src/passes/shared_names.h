// Shared values that passes add and the training loop feeds or reads, by name. All are scalars.
//
//   const ValueId lr = module.find_shared(shared_names::kLearningRate);
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "ir/value.h"

namespace snug {

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

}  // namespace snug

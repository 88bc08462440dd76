// A model as the rest of Snug sees it: sizes and facts, whatever parts it is made of.
#pragma once

#include <cstdint>
#include <string>

#include "models/parts/model_parts.h"

namespace snug {

// Of a model with layers that differ, what is true of its first.
struct ModelConfig {
  std::string name;
  std::string family;
  bool transformer = true;  // else an MLP on rows of features: no tokens, sequences or attention

  int64_t L = 0;  // layers
  int64_t C = 0;  // width
  int64_t H = 0;  // attention heads
  int64_t K = 0;  // key and value heads
  int64_t D = 0;  // size of a head
  int64_t F = 0;  // inner width of the MLP
  int64_t V = 0;  // vocabulary
  int64_t max_positions = 0;
  bool causal = true;       // no token sees those after it
  bool tied = false;        // the head is the embedding table
  bool like_llama = false;  // decoder layers of rms norm, rotary attention and swiglu, no more
  double embedding_dropout = 0;
  double attention_dropout = 0;
  double residual_dropout = 0;
};

ModelConfig config_of(const ModelParts& m, std::string name);

}  // namespace snug

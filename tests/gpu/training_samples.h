// The ops of a training step at the shapes of models, for checks and measurements at sizes that
// take a kernel's fast path. In f32 as samples are; in_dtype() makes them bf16.
#pragma once

#include <string>
#include <vector>

#include "ops/testing/op_case.h"

namespace snug {

struct ModelShape {
  std::string name;
  int64_t B, T;           // micro-batch
  int64_t C, H, K, D, F;  // width, q heads, kv heads, head width, width between gate|up and down
  int64_t V;
  int64_t layers;
  bool tied;  // the head is the embedding

  std::vector<int64_t> parameter_elements() const;
};
const std::vector<ModelShape>& qwen_shapes();

struct TrainingSample {
  const OpDef* def;
  Sample sample;
};

// By family, so that a check can be as small as its CPU side needs.
TrainingSample norm_sample(const ModelShape& m, const OpDef& def);
TrainingSample activation_sample(const ModelShape& m, const OpDef& def);
TrainingSample rope_sample(const ModelShape& m);
TrainingSample attention_sample(const ModelShape& m);
TrainingSample embedding_sample(const ModelShape& m);
// Gradients that add to a sum: of the table, and of the projection's bias.
TrainingSample embedding_grad_sample(const ModelShape& m);
TrainingSample bias_grad_sample(const ModelShape& m);
TrainingSample head_sample(const ModelShape& m, int64_t chunk = 1024);
TrainingSample adamw_sample(int64_t elements);
TrainingSample adamw_master_sample(int64_t elements);  // in f32, gradient and weight in bf16
TrainingSample sum_squares_sample(int64_t elements);

// Appends the backward op that also recomputes what a policy may choose not to keep.
void add_fused_recompute(OpCase& c);

}  // namespace snug

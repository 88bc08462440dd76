// The choice of techniques and their settings that passes read: what the user asked for, or what
// the search chose.
#pragma once

#include <cstdint>

#include "ir/op_def.h"
#include "settings/mesh.h"
#include "techniques/adapters/settings.h"
#include "techniques/base/settings.h"
#include "techniques/compress/settings.h"
#include "techniques/host_update/settings.h"
#include "techniques/offload/settings.h"
#include "techniques/optimizer/settings.h"
#include "techniques/pipeline/settings.h"
#include "techniques/precision/settings.h"
#include "techniques/recompute/settings.h"

namespace snug {

struct Recipe {
  int64_t accum = 1;        // micro-batches per step
  int64_t micro_group = 1;  // of them, that go through each layer together; divides accum
  int64_t groups() const { return accum / micro_group; }
  Mesh mesh;
  PipelineSchedule pp_schedule = PipelineSchedule::one_forward_one_backward;
  Sharding sharding;  // of the mesh's data-parallel ranks
  // A micro-batch's gradients are complete before they are added to those of others: N ranks then
  // give the bits of one device with N micro-batches.
  bool sums_apart = false;
  RecomputePolicy recompute;
  CompressKind compress = CompressKind::none;
  Offload offload;
  // Backward ops that can recompute a cheap forward result on the way do so, and it is not kept.
  bool fused_recompute = false;

  Adapters adapters;  // what is trained in place of the model
  BaseKind base = BaseKind::plain;
  Dtype precision = Dtype::f32;  // of weights and activations
  bool master = true;            // 16-bit weights have an fp32 copy that the optimizer works on
  Dtype grad_dtype = Dtype::f32;
  LossScale loss_scale;

  OptimizerKind optimizer = OptimizerKind::adamw;
  Dtype state_dtype = Dtype::f32;  // f32 or bf16
  bool update_in_backward = false;
  // Layers are updated on the way through the next step's first forward, each before it is used.
  bool fold_update = false;
  // Do gradients outlive the program that makes them?
  bool carries_gradients() const { return !update_in_backward || groups() > 1; }
  bool updates_in_training() const { return update_in_backward || fold_update; }
  HostUpdate host_update;
  // Without the programs that run between steps, `load` and `flush`: what a search tries needs none.
  bool step_only = false;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double momentum = 0.9;      // sgd
  double weight_decay = 0.1;  // on matrices and embeddings; never on norms and biases
  double clip = 1.0;          // the largest global gradient norm; 0: no clipping

  Backend backend = Backend::cpu;

  friend bool operator==(const Recipe&, const Recipe&) = default;
};

}  // namespace snug

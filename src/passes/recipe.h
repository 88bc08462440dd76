// The choice of techniques and their settings that passes read: what the user asked for, or what
// the search chose.
#pragma once

#include <cstdint>

#include "ir/op_def.h"
#include "passes/adapters.h"
#include "passes/host_update.h"
#include "passes/mesh.h"
#include "passes/offload.h"
#include "passes/recompute_policy.h"

namespace snug {

enum class OptimizerKind : uint8_t { adamw, adamw8bit, adam_mini, lion, sgd };
// How frozen weights are stored: as they are computed with, or in fewer bits.
enum class BaseKind : uint8_t { plain, nf4, int8 };
enum class CompressKind : uint8_t { none, int8 };

// Multiplies the loss so that small gradients survive in fp16. A step that overflows is skipped; a
// dynamic scale then shrinks, and grows again after `interval` clean steps.
struct LossScale {
  double start = 1;  // 1 and not dynamic: no scaling
  bool dynamic = false;
  int64_t interval = 1000;
  double growth = 2;
  double backoff = 0.5;
  double floor = 1;

  bool on() const { return dynamic || start != 1; }
  friend bool operator==(const LossScale&, const LossScale&) = default;
};

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

// Kernels at sizes that take their fast paths, in bf16, against the CPU's kernels: the references
// in double would take too long. Few tokens: the CPU's side takes the time.
#include <gtest/gtest.h>

#include "gpu/cuda_rounding.h"
#include "gpu/cuda_runner.h"
#include "gpu/training_samples.h"
#include "ops/activation/gelu.h"
#include "ops/activation/swiglu.h"
#include "ops/norm/layer_norm.h"
#include "ops/norm/rms_norm.h"
#include "ops/testing/op_check.h"

namespace snug {
namespace {

ModelShape with_tokens(ModelShape m, int64_t B, int64_t T) {
  m.B = B;
  m.T = T;
  return m;
}

ModelShape with_table(ModelShape m, int64_t V, int64_t C) {
  m.V = V;
  m.C = C;
  return m;
}

// `math.deterministic`: also the same bits from every run, and from those that work in place.
void check(const TrainingSample& s, const Math& math = {}) {
  SCOPED_TRACE(fmt::format("{} at the shape of {} in bf16", s.def->kind, s.sample.name));
  OpCase c = build_case(*s.def, in_dtype(s.sample, Dtype::bf16));
  add_fused_recompute(c);
  CudaRunner runner(math);
  check_kernels(std::move(c), runner, with_cuda_rounding(expect_cpu_kernel));
}

constexpr Math kRepeatable{.deterministic = true};

const ModelShape& small() { return qwen_shapes()[0]; }
const ModelShape& middle() { return qwen_shapes()[1]; }

}  // namespace

TEST(TrainingShapes, Norms) {
  SNUG_NEEDS_CUDA;
  const auto check_all = [](const ModelShape& m) {
    for (const OpDef* def : {&ops::rms_norm_def, &ops::residual_rms_norm_def, &ops::layer_norm_def,
                             &ops::residual_layer_norm_def}) {
      check(norm_sample(m, *def));
    }
  };
  for (const ModelShape& m : qwen_shapes()) check_all(with_tokens(m, 1, 512));
  for (int64_t width : {768, 8192, 16384}) {  // rows that are held in other ways
    ModelShape m = with_table(with_tokens(small(), 1, 160), small().V, width);
    m.name = fmt::format("width {}", width);
    check_all(m);
  }
  check(norm_sample(with_tokens(small(), 1, 512), ops::residual_rms_norm_def), kRepeatable);
}

TEST(TrainingShapes, Activations) {
  SNUG_NEEDS_CUDA;
  for (const OpDef* def : {&ops::swiglu_def, &ops::gelu_def})
    check(activation_sample(with_tokens(small(), 1, 256), *def));
  check(activation_sample(with_tokens(small(), 1, 256), ops::swiglu_def), kRepeatable);
}

TEST(TrainingShapes, Rope) {
  SNUG_NEEDS_CUDA;
  for (const ModelShape& m : {small(), middle()}) check(rope_sample(with_tokens(m, 2, 512)));
}

TEST(TrainingShapes, Attention) {
  SNUG_NEEDS_CUDA;
  for (const ModelShape& m : {small(), middle()}) check(attention_sample(with_tokens(m, 2, 512)));
  check(attention_sample(with_tokens(small(), 1, 256)), kRepeatable);
}

TEST(TrainingShapes, Embedding) {
  SNUG_NEEDS_CUDA;
  const ModelShape tokens = with_tokens(small(), 1, 1024);
  check(embedding_sample(with_table(tokens, 16'384, small().C)));
  check(embedding_grad_sample(with_table(tokens, 16'384, small().C)), kRepeatable);
  check(embedding_grad_sample(with_table(tokens, 100, small().C)), kRepeatable);  // often the same
}

TEST(TrainingShapes, BiasGrad) {
  SNUG_NEEDS_CUDA;
  for (const ModelShape& m : qwen_shapes())
    check(bias_grad_sample(with_tokens(m, 1, 512)), kRepeatable);
}

TEST(TrainingShapes, LinearCrossEntropy) {
  SNUG_NEEDS_CUDA;
  const ModelShape tokens = with_tokens(small(), 1, 128);
  check(head_sample(with_table(tokens, 16'384, tokens.C)));
  check(head_sample(with_table(tokens, tokens.V, 64)));  // as many logits as there are
  // Rows with gaps between them, in chunks and a rest.
  check(head_sample(with_table(tokens, 50'257, 64), /*chunk=*/80));
  check(head_sample(with_table(tokens, 50'257, 64), /*chunk=*/80), kRepeatable);
  check(head_sample(with_table(tokens, 50'257, 64), /*chunk=*/128));  // whole
}

TEST(TrainingShapes, AdamW) {
  SNUG_NEEDS_CUDA;
  check(adamw_sample(1 << 20));
  check(adamw_sample((1 << 20) + 8), kRepeatable);
}

TEST(TrainingShapes, SumSquares) {
  SNUG_NEEDS_CUDA;
  check(sum_squares_sample((1 << 20) + 8));
}

}  // namespace snug

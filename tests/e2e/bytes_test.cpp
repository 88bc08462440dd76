// Bytes go down as they should: what each technique must save, on plans of models that people use.
#include <gtest/gtest.h>

#include "base/units.h"
#include "models/model.h"
#include "placement/plan.h"
#include "settings/parse.h"
#include "support/small_run.h"

namespace snug {
namespace {

constexpr auto kStandard = ops::AttentionKind::standard;
constexpr auto kFlash = ops::AttentionKind::flash;

Plan planned(const std::string& model, const BuildOptions& build, const Recipe& recipe = {}) {
  return make_plan("m", Model::load(model).forward(build), recipe);
}

std::string llama24() { return tests_dir() + "/e2e/llama-24x1024.json"; }

// Activations and repeats at their own peak.
int64_t activations_peak(const Plan& plan) {
  int64_t peak = 0;
  for (size_t p = 0; p < plan.module.programs.size(); ++p) {
    for (const CategoryBytes& live :
         timeline(plan.module, static_cast<int32_t>(p), Space::device)) {
      peak = std::max(peak, live[static_cast<size_t>(Category::activations)] +
                                live[static_cast<size_t>(Category::recompute)]);
    }
  }
  return peak;
}

TEST(RecomputeBytes, ShrinkAsExpected) {
  const BuildOptions build{.batch = 8, .seq = 1024, .attention = kStandard};
  const auto peak = [&](const char* policy) {
    return static_cast<double>(activations_peak(planned(
        llama24(), build, {.recompute = parse_setting<RecomputePolicy>(policy, "recompute")})));
  };
  const double none = peak("none");
  EXPECT_LE(peak("full"), 0.12 * none);
  EXPECT_LE(peak("sqrt"), 0.25 * none);
}

// Attention's probabilities, [B,H,T,T], are all that is quadratic in the sequence.
TEST(RecomputeBytes, AttentionPolicyKeepsNothingQuadratic) {
  const BuildOptions build{.batch = 8, .seq = 1024, .attention = kStandard};
  const Plan plan = planned(
      llama24(), build, {.recompute = parse_setting<RecomputePolicy>("attention", "recompute")});
  const Program& program = plan.module.program("micro_first");
  std::vector<int> live_at(program.ops.size());
  int quadratic = 0;
  for (const Value& value : plan.module.values) {
    const Shape& shape = value.type.shape;
    if (shape.rank() != 4 || shape[2] != build.seq || shape[3] != build.seq || !value.live)
      continue;
    if (value.program != plan.module.program_index("micro_first")) continue;
    ++quadratic;
    const auto phase = [&](int32_t at) { return program.ops[static_cast<size_t>(at)].phase; };
    EXPECT_EQ(phase(value.live->first), phase(value.live->last)) << value.name;
    for (int32_t at = value.live->first; at <= value.live->last; ++at)
      ++live_at[static_cast<size_t>(at)];
  }
  EXPECT_EQ(quadratic, 48) << "24 layers, forward and again in backward";
  EXPECT_EQ(*std::max_element(live_at.begin(), live_at.end()), 1);
}

TEST(AttentionBytes, FlashIsLinearInTheSequence) {
  const auto transient = [](int64_t seq) {
    const Plan plan = planned(llama24(), {.batch = 1, .seq = seq, .attention = kFlash});
    return static_cast<double>(activations_peak(plan));
  };
  const double per_token = transient(1024) / 1024;
  for (int64_t seq = 2048; seq <= 65536; seq *= 2) {
    EXPECT_NEAR(transient(seq) / static_cast<double>(seq), per_token, 0.02 * per_token) << seq;
  }
}

// Optimizer state over the tensors that a method reduces, and over the others, in bytes per
// parameter.
struct StateBytes {
  double reduced = 0, others = 0;
};

StateBytes state_bytes(OptimizerKind optimizer, const std::string& model) {
  const Plan plan = planned(model, {.batch = 1, .seq = 128}, {.optimizer = optimizer});
  int64_t state[2] = {}, elements[2] = {};
  for (size_t i = 0; i < plan.module.values.size(); ++i) {
    const Value& param = plan.module.values[i];
    if (param.category != Category::params || !param.shared()) continue;
    int64_t bytes = 0;
    for (const Value& value : plan.module.values) {
      const bool own = value.category == Category::optimizer && value.shared() &&
                       value.parameter == ValueId{static_cast<int32_t>(i)};
      if (own) bytes += value.type.bytes();
    }
    const size_t kept = bytes == 8 * param.type.shape.elements() ? 1 : 0;
    state[kept] += bytes;
    elements[kept] += param.type.shape.elements();
  }
  const auto ratio = [&](size_t i) {
    return elements[i] == 0 ? 0 : static_cast<double>(state[i]) / static_cast<double>(elements[i]);
  };
  return {ratio(0), ratio(1)};
}

TEST(OptimizerBytes, PerParameter) {
  for (const char* model : {"gpt2", "qwen2.5-0.5b"}) {
    SCOPED_TRACE(model);
    EXPECT_LE(state_bytes(OptimizerKind::adamw8bit, model).reduced, 2.1);
    EXPECT_GT(state_bytes(OptimizerKind::adamw8bit, model).reduced, 2.0);
    EXPECT_EQ(state_bytes(OptimizerKind::adamw8bit, model).others, 8);
    EXPECT_LE(state_bytes(OptimizerKind::adam_mini, model).reduced, 4.1);
    EXPECT_EQ(state_bytes(OptimizerKind::adam_mini, model).others, 8);
    EXPECT_EQ(state_bytes(OptimizerKind::lion, model).reduced, 4);
    EXPECT_EQ(state_bytes(OptimizerKind::adamw, model).others, 8);
  }
}

TEST(PrecisionBytes, PerParameter) {
  const auto bytes = [](const Recipe& recipe, Category category) {
    const Plan plan = planned("gpt2", {.batch = 1, .seq = 64}, recipe);
    return static_cast<double>(plan.memory.shared[static_cast<size_t>(category)]) /
           static_cast<double>(plan.memory.trainable_params);
  };
  const Recipe mixed{.precision = Dtype::bf16, .grad_dtype = Dtype::bf16};
  EXPECT_EQ(bytes(mixed, Category::params), 2);
  EXPECT_EQ(bytes(mixed, Category::master), 4);
  EXPECT_EQ(bytes(mixed, Category::grads), 2);
  EXPECT_EQ(bytes(mixed, Category::optimizer), 8);
  Recipe lean = mixed;
  lean.master = false;
  lean.state_dtype = Dtype::bf16;
  EXPECT_EQ(bytes(lean, Category::master), 0);
  EXPECT_EQ(bytes(lean, Category::optimizer), 4);
}

TEST(PrecisionBytes, ActivationsHalve) {
  const BuildOptions build{.batch = 4, .seq = 512, .attention = kFlash};
  const auto peak = [&](Dtype dtype) {
    return static_cast<double>(activations_peak(
        planned(llama24(), build, {.precision = dtype, .grad_dtype = Dtype::f32})));
  };
  EXPECT_LE(peak(Dtype::bf16), 0.51 * peak(Dtype::f32));
  EXPECT_EQ(peak(Dtype::bf16), peak(Dtype::f16));
}

// A value or scratch as large as all logits would be more than one chunk.
TEST(LossBytes, NeverMoreThanOneChunkOfLogits) {
  const BuildOptions build{.batch = 4, .seq = 512, .attention = kFlash, .loss_chunk = 256};
  const int64_t V = Model::load("qwen2.5-0.5b").config().V;
  const int64_t chunk = build.loss_chunk * V * size_of(Dtype::f32);
  const Plan plan = planned("qwen2.5-0.5b", build);
  int64_t scratch = 0;
  for (const Value& value : plan.module.values) {
    if (value.category == Category::workspace) scratch = std::max(scratch, value.type.bytes());
    if (value.category != Category::activations) continue;
    EXPECT_LT(value.type.bytes(), chunk) << value.name;
  }
  EXPECT_GE(scratch, chunk);
  EXPECT_LT(scratch, chunk + chunk / 16);
}

// Whole logits in a loss's scratch on a GPU: instead of a value, with rows padded to 128 bytes and
// a double for each row's loss.
TEST(LossBytes, FusedWholeLogitsTakeOneValueAndPadding) {
  for (const char* model : {"gpt2", "qwen2.5-0.5b"}) {
    for (const Dtype precision : {Dtype::f32, Dtype::bf16}) {
      const auto arena = [&](bool fused) {
        const BuildOptions build{.batch = 2,
                                 .seq = 512,
                                 .chunked_loss = false,
                                 .fused_loss = fused,
                                 .residual_in_matmul = true};
        const Recipe recipe{
            .fused_recompute = true, .precision = precision, .backend = Backend::cuda};
        return planned(model, build, recipe).module.arena_bytes[0];
      };
      const int64_t row = Model::load(model).config().V * size_of(precision);
      const int64_t padding = round_up(row, int64_t{128}) - row;
      EXPECT_LE(arena(true), arena(false) + 1024 * (padding + size_of(Dtype::f64)))
          << model << ' ' << name_of(precision);
    }
  }
}

TEST(UpdateInBackwardBytes, GradientsAreFreedWithOneMicroBatch) {
  const BuildOptions build{.batch = 1, .seq = 128};
  const auto grads = [&](int64_t accum, bool in_backward) {
    const Plan plan =
        planned("gpt2", build,
                {.accum = accum, .update_in_backward = in_backward, .clip = in_backward ? 0.0 : 1});
    return plan.memory.device().category_peaks[static_cast<size_t>(Category::grads)];
  };
  const int64_t all = grads(1, false);
  EXPECT_LT(grads(1, true), all * 2 / 5) << "the embedding's gradient is the largest";
  EXPECT_EQ(grads(2, true), all) << "micro-batches add to what is carried";
}

// Evaluation never makes the arena larger than training does.
TEST(EvaluationBytes, FitInTrainingArena) {
  for (const char* policy : {"none", "full", "sqrt"}) {
    for (const Dtype precision : {Dtype::f32, Dtype::bf16}) {
      for (const bool in_backward : {false, true}) {
        for (const auto attention : {kStandard, ops::AttentionKind::chunked, kFlash}) {
          const Recipe recipe{.recompute = parse_setting<RecomputePolicy>(policy, "recompute"),
                              .precision = precision,
                              .grad_dtype = precision,
                              .update_in_backward = in_backward,
                              .clip = in_backward ? 0.0 : 1};
          const Plan plan =
              planned(llama24(), {.batch = 2, .seq = 256, .attention = attention}, recipe);
          int64_t peak[2] = {};
          for (size_t p = 0; p < plan.module.programs.size(); ++p) {
            const bool eval = plan.module.programs[p].role == ProgramRole::evaluation;
            for (const CategoryBytes& live :
                 timeline(plan.module, static_cast<int32_t>(p), Space::device))
              peak[eval ? 1 : 0] = std::max(peak[eval ? 1 : 0], total(live));
          }
          EXPECT_LE(peak[1], peak[0]) << policy << " " << name_of(precision);
        }
      }
    }
  }
}

}  // namespace
}  // namespace snug

// Parity with PyTorch in fp32: loss, logits, every gradient tensor, and a 20-step AdamW curve with
// clipping, against the values that reference.py stored.
#include <gtest/gtest.h>

#include "support/reference_run.h"

namespace snug {
namespace {

struct Case {
  const char* family;
  ops::AttentionKind attention;
  bool chunked_loss;
};

class Parity : public ::testing::TestWithParam<Case> {
 protected:
  ReferenceRun run_{GetParam().family,
                    {.attention = GetParam().attention,
                     .chunked_loss = GetParam().chunked_loss,
                     .loss_chunk = 20}};
};

TEST_P(Parity, LossAndEveryGradient) {
  run_.feed_batch();
  run_.executor().run("micro_first");
  const double want = run_.stored("loss")[0];
  EXPECT_NEAR(run_.mean_loss(), want, 1e-5 * want);
  const double global = run_.global_norm();
  for (const auto& d : run_.gradient_differences()) {
    EXPECT_LE(d.difference, std::max(1e-5 * d.reference, 1e-7 * global))
        << d.tensor << ", norm " << d.reference << " of " << global;
  }
}

TEST_P(Parity, EvaluationGivesTheSameLoss) {
  run_.feed_batch();
  run_.executor().run("eval");
  const double want = run_.stored("loss")[0];
  EXPECT_NEAR(run_.mean_loss(), want, 1e-5 * want);
}

TEST_P(Parity, TwentyStepsOfAdamWWithClipping) {
  const std::vector<float> losses = run_.stored("curve.losses");
  const std::vector<float> norms = run_.stored("curve.norms");
  ASSERT_EQ(losses.size(), 20U);
  for (size_t step = 0; step < losses.size(); ++step) {
    run_.feed_curve(static_cast<int64_t>(step));
    run_.executor().run("micro_first");
    run_.executor().run("update");
    EXPECT_NEAR(run_.mean_loss(), losses[step], 1e-4 * losses[step]) << "step " << step;
    EXPECT_NEAR(run_.grad_norm(), norms[step], 1e-3 * norms[step]) << "step " << step;
  }
}

constexpr auto kStandard = ops::AttentionKind::standard;
constexpr auto kChunked = ops::AttentionKind::chunked;
constexpr auto kFlash = ops::AttentionKind::flash;
INSTANTIATE_TEST_SUITE_P(
    Models, Parity,
    ::testing::Values(Case{"gpt2", kStandard, false}, Case{"gpt2", kFlash, true},
                      Case{"llama", kStandard, true}, Case{"llama", kFlash, false},
                      Case{"qwen2", kStandard, false}, Case{"qwen2", kFlash, true},
                      Case{"mistral", kFlash, true}, Case{"mistral_window", kStandard, true},
                      Case{"mistral_window", kChunked, true}, Case{"mistral_window", kFlash, false},
                      Case{"llama3", kFlash, true}, Case{"qwen3", kStandard, false},
                      Case{"qwen3", kFlash, true}, Case{"olmo2", kStandard, true},
                      Case{"olmo2", kFlash, false}, Case{"phi3", kStandard, false},
                      Case{"phi3", kFlash, true}, Case{"gemma3", kStandard, true},
                      Case{"gemma3", kChunked, false}, Case{"gemma3", kFlash, false},
                      Case{"stablelm", kStandard, true}, Case{"stablelm", kFlash, false},
                      Case{"stablelm_parallel", kFlash, true}, Case{"gpt_neox", kStandard, false},
                      Case{"gpt_neox", kFlash, true}, Case{"lora_gpt_neox", kFlash, true},
                      Case{"opt", kStandard, false}, Case{"opt", kFlash, true},
                      Case{"bert", kStandard, true}, Case{"bert", kFlash, false},
                      Case{"lora_llama", kFlash, true}, Case{"lora_llama", kStandard, false},
                      Case{"lora_gpt2", kFlash, true}, Case{"lora_phi3", kFlash, false}),
    [](const auto& p) {
      return std::string(p.param.family) +
             (p.param.attention == kFlash     ? "_flash"
              : p.param.attention == kChunked ? "_chunks"
                                              : "_standard") +
             (p.param.chunked_loss ? "_chunked" : "_whole");
    });

}  // namespace
}  // namespace snug

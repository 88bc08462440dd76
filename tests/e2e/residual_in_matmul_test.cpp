// A residual that the matmul adds itself is the same sum as one that the next norm adds.
#include <gtest/gtest.h>
#include <omp.h>

#include "support/small_run.h"

namespace snug {
namespace {

constexpr int kResidualSteps = 4;

class ResidualInMatmul : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { omp_set_num_threads(1); }
  SmallRun run(bool in_matmul, double dropout = 0) const {
    return {tests_dir() + "/parity/" + GetParam(),
            {.batch = 2, .seq = 19, .residual_in_matmul = in_matmul, .dropout = dropout}};
  }
};

// Ops that name a residual.
int64_t with_residual(const Module& module) {
  return std::ranges::count_if(module.program("micro_first").ops, [](const Op& op) {
    const auto port = std::ranges::find(op.def->inputs, "residual", &Port::name);
    const auto at = static_cast<size_t>(port - op.def->inputs.begin());
    return op.phase == Phase::forward && at < op.inputs.size() && op.inputs[at].valid();
  });
}

TEST_P(ResidualInMatmul, LearnsTheSame) {
  SmallRun plain = run(false);
  SmallRun fused = run(true);
  EXPECT_EQ(with_residual(plain.module()), 0);
  EXPECT_EQ(with_residual(fused.module()), 4) << "attention and MLP of two layers";
  for (int i = 0; i < kResidualSteps; ++i) {
    const float want = plain.step();
    EXPECT_NEAR(fused.step(), want, 1e-6F * want) << "step " << i;
  }
  EXPECT_EQ(fused.executor().measured_bytes(), fused.executor().planned_bytes());
}

TEST_P(ResidualInMatmul, DropoutPreventsFusion) {
  EXPECT_EQ(with_residual(run(true, 0.1).module()), 0);
  EXPECT_EQ(run(true, 0.1).losses(kResidualSteps), run(false, 0.1).losses(kResidualSteps));
}

INSTANTIATE_TEST_SUITE_P(Models, ResidualInMatmul,
                         ::testing::Values("gpt2", "llama", "qwen2", "mistral", "bert", "qwen3",
                                           "phi3", "stablelm", "stablelm_parallel", "gpt_neox",
                                           "opt"),
                         [](const auto& p) { return std::string(p.param); });

}  // namespace
}  // namespace snug

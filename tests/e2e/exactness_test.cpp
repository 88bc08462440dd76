// Exact means exact: under every recompute policy the loss curve has the same bits as under the
// same recipe without recompute, whatever else the recipe asks for; what runs is what was planned.
#include <gtest/gtest.h>
#include <omp.h>

#include <map>

#include "settings/parse.h"
#include "support/small_run.h"

namespace snug {
namespace {

constexpr const char* kFamilies[] = {"gpt2", "llama", "gemma3", "olmo2"};
constexpr const char* kPolicies[] = {"full", "every:2", "sqrt", "ratio:0.5", "attention", "list:1"};
constexpr ops::AttentionKind kAttentions[] = {
    ops::AttentionKind::standard, ops::AttentionKind::chunked, ops::AttentionKind::flash};
constexpr Dtype kPrecisions[] = {Dtype::f32, Dtype::bf16, Dtype::f16};
constexpr OptimizerKind kOptimizers[] = {OptimizerKind::adamw, OptimizerKind::adamw8bit,
                                         OptimizerKind::adam_mini, OptimizerKind::lion,
                                         OptimizerKind::sgd};

// One setting of everything but the policy. The product of family, attention and precision, while
// the number of the setting turns the other wheels.
struct ExactRun {
  std::string name;
  std::string model;
  BuildOptions build;
  Recipe recipe;
};

std::vector<ExactRun> exact_runs() {
  std::vector<ExactRun> out;
  for (const char* family : kFamilies) {
    for (const auto attention : kAttentions) {
      for (const Dtype precision : kPrecisions) {
        const size_t n = out.size();
        ExactRun s;
        s.model = tests_dir() + "/parity/" + family;
        s.build = {.batch = 2, .seq = 19, .attention = attention, .dropout = 0.1};
        s.build.attention_chunk = 8;
        s.build.chunked_loss = n % 2 == 0;
        s.recipe.precision = s.recipe.grad_dtype = precision;
        s.recipe.accum = 1 + static_cast<int64_t>(n % 3);
        s.recipe.optimizer = kOptimizers[n % std::size(kOptimizers)];
        s.recipe.master = n % 4 != 1;
        if (n % 3 == 2) s.recipe.grad_dtype = Dtype::f32;
        if (n % 5 == 0) s.recipe.state_dtype = Dtype::bf16;
        if (precision == Dtype::f16) s.recipe.loss_scale = {.start = 1024, .dynamic = true};
        if (n % 7 == 3 && precision != Dtype::f16) {
          s.recipe.update_in_backward = true;
          s.recipe.clip = 0;
        }
        s.name = fmt::format("{}_{}_attention{}_{}", n, family, static_cast<int>(attention),
                             name_of(precision));
        out.push_back(std::move(s));
      }
    }
  }
  return out;
}

// Ten steps, and what was executed in the last of them.
struct Trace {
  std::vector<float> losses;
  double flops = 0;
  int64_t clones = 0;
};

Trace trace(SmallRun& run) {
  Trace t;
  for (int i = 0; i < 9; ++i) t.losses.push_back(run.step());
  run.executor().observe = [&](size_t program, size_t at) {
    const Op& op = run.module().programs[program].ops[at];
    t.flops += static_cast<double>(cost_of(run.module(), op, Backend::cpu).flops);
    t.clones += op.clone_of.empty() ? 0 : 1;
  };
  t.losses.push_back(run.step());
  return t;
}

double planned_flops(const SmallRun& run) {
  double sum = 0;
  for (const double flops : run.plan().memory.step_flops) sum += flops;
  return sum;
}

// Small models are fastest on one thread, and results do not depend on how many there are.
class Exactness : public ::testing::TestWithParam<ExactRun> {
 protected:
  void SetUp() override { omp_set_num_threads(1); }
};

TEST_P(Exactness, EveryPolicyHasTheSameBits) {
  const ExactRun& s = GetParam();
  SmallRun plain(s.model, s.build, s.recipe);
  const Trace want = trace(plain);
  EXPECT_EQ(want.clones, 0);
  for (const char* policy : kPolicies) {
    SCOPED_TRACE(policy);
    Recipe recipe = s.recipe;
    recipe.recompute = parse_setting<RecomputePolicy>(policy, "recompute");
    SmallRun run(s.model, s.build, recipe);
    const Trace got = trace(run);
    EXPECT_EQ(got.losses, want.losses);
    EXPECT_GT(got.clones, 0);
    EXPECT_EQ(got.flops, planned_flops(run));
    EXPECT_EQ(run.executor().measured_bytes(), run.executor().planned_bytes());
    EXPECT_EQ(run.executor().allocated_bytes(), run.executor().planned_bytes());
  }
}

INSTANTIATE_TEST_SUITE_P(Matrix, Exactness, ::testing::ValuesIn(exact_runs()),
                         [](const auto& p) { return p.param.name; });

// The wheels above turn through every choice, and no policy meets only one of them.
TEST(ExactnessMatrix, CoversEveryChoice) {
  const auto all = exact_runs();
  std::map<OptimizerKind, int> optimizers;
  std::map<int64_t, int> accums;
  int without_master = 0, in_backward = 0;
  for (const ExactRun& s : all) {
    ++optimizers[s.recipe.optimizer];
    ++accums[s.recipe.accum];
    without_master += s.recipe.precision != Dtype::f32 && !s.recipe.master;
    in_backward += s.recipe.update_in_backward;
  }
  EXPECT_GE(all.size() * std::size(kPolicies), 60U);
  EXPECT_EQ(optimizers.size(), std::size(kOptimizers));
  EXPECT_EQ(accums.size(), 3U);
  EXPECT_GE(without_master, 2);
  EXPECT_GE(in_backward, 1);
}

}  // namespace
}  // namespace snug

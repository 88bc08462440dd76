// Exact means exact on a GPU too: under --deterministic every recompute policy, with and without
// what backward ops recompute, has the bits of the plain recipe.
#include "gpu_train/gpu_run.h"
#include "settings/parse.h"

namespace snug {
namespace {

constexpr int kExactSteps = 10;
constexpr const char* kPolicies[] = {"none", "full", "sqrt", "every:2", "attention", "list:1"};
constexpr const char* kModels[] = {"gpt2", "llama", "qwen2", "bert", "snug-tiny"};

struct Setting {
  std::string name;
  std::string model;
  BuildOptions build;
  Recipe recipe;
};

// The product of precision, dropout, optimizer and accumulation, while the number of the setting
// turns the other wheels.
std::vector<Setting> settings() {
  std::vector<Setting> out;
  for (const Dtype precision : {Dtype::f32, Dtype::bf16}) {
    for (const double dropout : {0.0, 0.1}) {
      for (const OptimizerKind optimizer : {OptimizerKind::adamw, OptimizerKind::lion}) {
        for (const int64_t accum : {1, 3}) {
          const size_t n = out.size();
          const std::string model = kModels[n % std::size(kModels)];
          Setting s;
          s.model = model == "snug-tiny" ? model : tests_dir() + "/parity/" + model;
          s.build = {.batch = 2, .seq = 19, .dropout = dropout};
          s.build.chunked_loss = n % 3 != 2;
          s.build.residual_in_matmul = n % 2 == 0;
          s.build.fused_loss = n % 2 == 0;
          s.recipe.precision = precision;
          s.recipe.grad_dtype = accum == 1 ? precision : Dtype::f32;
          s.recipe.master = n % 4 != 1;
          s.recipe.optimizer = optimizer;
          s.recipe.accum = accum;
          if (n % 5 == 3) s.recipe.state_dtype = Dtype::bf16;
          s.name =
              fmt::format("{}_{}_{}_dropout{}_{}_accum{}", n, model == "snug-tiny" ? "tiny" : model,
                          name_of(precision), dropout > 0 ? 1 : 0,
                          optimizer == OptimizerKind::lion ? "lion" : "adamw", accum);
          out.push_back(std::move(s));
        }
      }
    }
  }
  return out;
}

class GpuExactness : public OnGpu, public ::testing::WithParamInterface<Setting> {};

TEST_P(GpuExactness, EveryPolicyHasTheSameBits) {
  const Setting& s = GetParam();
  const std::vector<float> want = gpu_run(s.model, s.build, s.recipe).losses(kExactSteps);
  EXPECT_EQ(gpu_run(s.model, s.build, s.recipe).losses(kExactSteps), want) << "run to run";
  for (const char* policy : kPolicies) {
    for (const bool fused_recompute : {false, true}) {
      SCOPED_TRACE(fmt::format("{}{}", policy, fused_recompute ? " with fused recompute" : ""));
      Recipe recipe = s.recipe;
      recipe.recompute = parse_setting<RecomputePolicy>(policy, "recompute");
      recipe.fused_recompute = fused_recompute;
      EXPECT_EQ(gpu_run(s.model, s.build, recipe).losses(kExactSteps), want);
    }
  }
}

// Matmuls and rows as training has them: other algorithms, larger scratch.
TEST_F(OnGpu, LargerMatmulsHaveTheSameBitsToo) {
  const BuildOptions build = as_on_gpu({.batch = 8, .seq = 256});
  Recipe recipe{.accum = 2, .precision = Dtype::bf16, .master = false};
  const std::vector<float> want = gpu_run("snug-tiny", build, recipe).losses(kExactSteps);
  recipe.fused_recompute = true;
  for (const char* policy : {"none", "full", "attention"}) {
    SCOPED_TRACE(policy);
    recipe.recompute = parse_setting<RecomputePolicy>(policy, "recompute");
    EXPECT_EQ(gpu_run("snug-tiny", build, recipe).losses(kExactSteps), want);
  }
}

INSTANTIATE_TEST_SUITE_P(Matrix, GpuExactness, ::testing::ValuesIn(settings()),
                         [](const auto& p) { return p.param.name; });

}  // namespace
}  // namespace snug

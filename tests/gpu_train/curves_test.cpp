// The same model learns the same on the CPU and on a GPU: 50 steps in fp32 without tf32, at a rate
// at which rounding does not grow into another path.
#include <cmath>
#include <iostream>

#include "gpu_train/gpu_run.h"

namespace snug {
namespace {

constexpr int kCurveSteps = 50;
constexpr float kLearningRate = 3e-4F;
constexpr double kCurveTolerance = 1e-4;  // relative

struct Curve {
  const char* name;
  const char* model;  // a family of tests/parity, or a built-in name
  BuildOptions build;
  bool gpu_choices = false;  // on the GPU as the command line would build it
};

const Curve kCurves[] = {
    {"gpt2", "gpt2", {.batch = 3, .seq = 32}},
    {"gpt2_dropout", "gpt2", {.batch = 3, .seq = 29, .dropout = 0.1}},
    {"gpt2_as_built", "gpt2", {.batch = 3, .seq = 32}, true},
    {"gpt2_whole_as_built", "gpt2", {.batch = 3, .seq = 32, .chunked_loss = false}, true},
    {"llama", "llama", {.batch = 4, .seq = 31, .chunked_loss = false}},
    {"llama_standard_attention",
     "llama",
     {.batch = 2, .seq = 24, .attention = ops::AttentionKind::standard}},
    {"qwen2", "qwen2", {.batch = 4, .seq = 27, .loss_chunk = 40}},
    {"qwen2_as_built", "qwen2", {.batch = 4, .seq = 27}, true},
    {"bert", "bert", {.batch = 5, .seq = 20}},
    {"bert_as_built", "bert", {.batch = 5, .seq = 19, .dropout = 0.1}, true},
    {"whole_packs", "snug-tiny", {.batch = 2, .seq = 64}, true},
};

std::string path_of(const std::string& model) {
  return model.starts_with("snug") ? model : tests_dir() + "/parity/" + model;
}

class Curves : public OnGpu, public ::testing::WithParamInterface<Curve> {};

TEST_P(Curves, CpuAndGpuAgree) {
  const Curve& c = GetParam();
  const std::string model = path_of(c.model);
  SmallRun cpu(model, c.build);
  SmallRun on_gpu = gpu_run(model, c.gpu_choices ? as_on_gpu(c.build) : c.build,
                            c.gpu_choices ? as_on_gpu(Recipe{}) : Recipe{}, {});
  cpu.lr = on_gpu.lr = kLearningRate;
  const std::vector<float> want = cpu.losses(kCurveSteps);
  const std::vector<float> got = on_gpu.losses(kCurveSteps);
  double worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double off = std::abs(static_cast<double>(got[i]) - want[i]) / want[i];
    EXPECT_LE(off, kCurveTolerance) << "step " << i << ": " << got[i] << " instead of " << want[i];
    worst = std::max(worst, off);
  }
  EXPECT_NEAR(on_gpu.evaluate(), cpu.evaluate(), kCurveTolerance * want.back());
  EXPECT_NE(want.front(), want.back()) << "nothing was learned";
  std::cout << fmt::format("{}: {:.1e} apart at most, of {:.0e}\n", c.name, worst, kCurveTolerance);
}

INSTANTIATE_TEST_SUITE_P(Families, Curves, ::testing::ValuesIn(kCurves),
                         [](const auto& p) { return std::string(p.param.name); });

}  // namespace
}  // namespace snug

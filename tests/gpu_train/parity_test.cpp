// Parity with PyTorch on a GPU: in fp32 as tight as on the CPU; in bf16, with an fp32 master and
// fp32 gradients, against the same exact values within what 8 bits of mantissa leave.
#include "gpu_train/gpu_run.h"
#include "support/reference_run.h"

namespace snug {
namespace {

// Relative, and for gradients of a tensor a floor in parts of the global norm.
struct Tolerance {
  double loss, gradient, floor, curve, norm;
};
constexpr Tolerance kFp32{1e-5, 1e-5, 1e-7, 1e-4, 1e-3};
// The CPU's kernels in bf16 measure 3.7e-2 for the worst gradient tensor above the floor, 1.3e-3
// along the curve and 1.3e-2 in its norms.
constexpr Tolerance kBf16{3e-3, 6e-2, 1e-3, 4e-3, 4e-2};
// Norms before and after everything carry roundings further: PyTorch's own gradients in bf16 are
// 1.1e-1 from its exact ones here, and at most 4.7e-2 in the other families.
constexpr Tolerance kGemma3Bf16{3e-3, 1.1e-1, 1e-3, 1e-2, 4e-2};
// A relu's input next to zero rounds to the other side: the CPU's kernels measure 8.1e-2 for the
// weight before it, an H200 7.7e-2.
constexpr Tolerance kOptBf16{3e-3, 1.1e-1, 1e-3, 4e-3, 4e-2};

struct Compared {
  const char* family;
  Dtype precision;
  ops::AttentionKind attention = ops::AttentionKind::flash;
};

class GpuParity : public OnGpu, public ::testing::WithParamInterface<Compared> {
 protected:
  static ReferenceRun run() {
    Recipe recipe = as_on_gpu(Recipe{});
    recipe.precision = GetParam().precision;
    return ReferenceRun(GetParam().family,
                        as_on_gpu({.attention = GetParam().attention, .loss_chunk = 20}), recipe,
                        {}, &gpu());
  }
  static const Tolerance& allowed() {
    if (GetParam().precision == Dtype::f32) return kFp32;
    const std::string_view family = GetParam().family;
    return family == "gemma3" ? kGemma3Bf16 : family == "opt" ? kOptBf16 : kBf16;
  }
};

TEST_P(GpuParity, LossAndEveryGradient) {
  ReferenceRun run = this->run();
  run.feed_batch();
  run.executor().run("micro_first");
  const double want = run.stored("loss")[0];
  EXPECT_NEAR(run.mean_loss(), want, allowed().loss * want);
  const double global = run.global_norm();
  for (const auto& d : run.gradient_differences()) {
    EXPECT_LE(d.difference, std::max(allowed().gradient * d.reference, allowed().floor * global))
        << d.tensor << ", norm " << d.reference << " of " << global;
  }
  run.executor().run("eval");
  EXPECT_NEAR(run.mean_loss(), want, allowed().loss * want) << "evaluation";
}

TEST_P(GpuParity, TwentyStepsOfAdamWWithClipping) {
  ReferenceRun run = this->run();
  const std::vector<float> losses = run.stored("curve.losses");
  const std::vector<float> norms = run.stored("curve.norms");
  for (size_t step = 0; step < losses.size(); ++step) {
    run.feed_curve(static_cast<int64_t>(step));
    run.executor().run("micro_first");
    run.executor().run("update");
    EXPECT_NEAR(run.mean_loss(), losses[step], allowed().curve * losses[step]) << "step " << step;
    EXPECT_NEAR(run.grad_norm(), norms[step], allowed().norm * norms[step]) << "step " << step;
  }
}

constexpr auto kStandard = ops::AttentionKind::standard;
INSTANTIATE_TEST_SUITE_P(
    Models, GpuParity,
    ::testing::Values(Compared{"gpt2", Dtype::f32}, Compared{"gpt2", Dtype::f32, kStandard},
                      Compared{"gpt2", Dtype::bf16}, Compared{"llama", Dtype::f32},
                      Compared{"llama", Dtype::f32, kStandard}, Compared{"llama", Dtype::bf16},
                      Compared{"qwen2", Dtype::f32}, Compared{"qwen2", Dtype::bf16},
                      Compared{"mistral", Dtype::f32}, Compared{"mistral", Dtype::bf16},
                      Compared{"mistral_window", Dtype::f32},
                      Compared{"mistral_window", Dtype::f32, kStandard},
                      Compared{"mistral_window", Dtype::bf16}, Compared{"llama3", Dtype::f32},
                      Compared{"qwen3", Dtype::f32}, Compared{"qwen3", Dtype::bf16},
                      Compared{"olmo2", Dtype::f32}, Compared{"olmo2", Dtype::bf16},
                      Compared{"phi3", Dtype::f32}, Compared{"phi3", Dtype::bf16},
                      Compared{"gemma3", Dtype::f32}, Compared{"gemma3", Dtype::f32, kStandard},
                      Compared{"gemma3", Dtype::bf16}, Compared{"stablelm", Dtype::f32},
                      Compared{"stablelm", Dtype::bf16}, Compared{"gpt_neox", Dtype::f32},
                      Compared{"gpt_neox", Dtype::bf16}, Compared{"opt", Dtype::f32},
                      Compared{"opt", Dtype::bf16}, Compared{"bert", Dtype::f32},
                      Compared{"bert", Dtype::f32, kStandard}, Compared{"bert", Dtype::bf16}),
    [](const auto& p) {
      return fmt::format("{}_{}{}", p.param.family, name_of(p.param.precision),
                         p.param.attention == kStandard ? "_standard" : "");
    });

}  // namespace
}  // namespace snug

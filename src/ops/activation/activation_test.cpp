#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/activation/dropout.h"
#include "ops/activation/gelu.h"
#include "ops/activation/relu.h"
#include "ops/activation/swiglu.h"
#include "ops/testing/op_case.h"
#include "ops/testing/op_check.h"
#include "ops/testing/refusal.h"
#include "ops/testing/run_op.h"

namespace snug::ops {
namespace {

using ::testing::HasSubstr;

ValueId input(Module& m, std::string name, Type type) {
  return add_shared(m, std::move(name), type, Category::inputs, Scope::step);
}

// Dropout of ones on the CPU: B samples of n elements, the first of them the run's sample `first`.
struct Draw {
  int64_t B = 4, n = 1000, seed = 1, step = 0, first = 0;
  double p = 0.25;
  const char* key = "h.0.drop";

  std::vector<double> run() const {
    const RefTensor ones{{Dtype::f32, {B, n}}, std::vector<double>(static_cast<size_t>(B * n), 1)};
    auto number = [](int64_t v) { return scalar(Dtype::i64, static_cast<double>(v)); };
    const Attrs attrs{{"p", p}, {"key", key}};
    return run_op(dropout_def, {ones, number(seed), number(step), number(first)}, attrs)[0].v;
  }
};

}  // namespace

TEST(Relu, Checks) { check_op(relu_def); }
TEST(Relu, ChecksInHalves) { check_op_in_halves(relu_def); }
TEST(Gelu, Checks) { check_op(gelu_def); }
TEST(Swiglu, Checks) { check_op(swiglu_def); }
TEST(Dropout, Checks) { check_op(dropout_def); }
TEST(Gelu, RecomputeGradChecks) { check_op(gelu_recompute_grad_def); }
TEST(Swiglu, RecomputeGradChecks) { check_op(swiglu_recompute_grad_def); }
TEST(Gelu, RecomputeGradChecksInHalves) { check_op_in_halves(gelu_recompute_grad_def); }
TEST(Swiglu, RecomputeGradChecksInHalves) { check_op_in_halves(swiglu_recompute_grad_def); }
TEST(Gelu, ChecksInHalves) { check_op_in_halves(gelu_def); }
TEST(Swiglu, ChecksInHalves) { check_op_in_halves(swiglu_def); }
TEST(Dropout, ChecksInHalves) { check_op_in_halves(dropout_def); }

// The recomputed y has the forward's bits, and the gradient those of the plain backward op.
TEST(Activation, RecomputesTheSameBits) {
  for (const OpDef* def : {&gelu_def, &swiglu_def}) {
    for (const Sample& sample : def->fused_recompute->with->samples()) {
      for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
        SCOPED_TRACE(fmt::format("{} '{}' in {}", def->kind, sample.name, name_of(dtype)));
        std::vector<RefTensor> in;
        for (const SampleInput& input : sample.inputs) {
          in.push_back(make_input({{dtype, input.type.shape}, input.fill}, "in", in));
        }
        const auto recomputed = run_op(*def->fused_recompute->with, in, sample.attrs);
        EXPECT_EQ(recomputed[0].v, run_op(*def->fused_recompute->grad, in, sample.attrs)[0].v);
        EXPECT_EQ(recomputed[1].v, run_op(*def, {in[0]}, sample.attrs)[0].v);
      }
    }
  }
}

TEST(Swiglu, RefusesAnOddWidth) {
  Module m;
  Builder b(m, "p");
  const ValueId x = input(m, "x", {Dtype::f32, {2, 7}});
  EXPECT_THAT(refusal_of([&] { swiglu(b, "act", x); }),
              HasSubstr("swiglu 'act': gate_up f32[2,7] does not split"));
}

TEST(Dropout, KeyedByFullNameRefusesBadProbabilities) {
  Module m;
  Builder b(m, "p");
  const ValueId x = input(m, "x", {Dtype::f32, {2, 8}});
  auto number = [&](const char* name) { return input(m, name, {Dtype::i64, {}}); };
  const Random random{number("seed"), number("step"), number("sample")};
  {
    auto layer = b.layer(2, "h.2");
    dropout(b, "drop", x, 0.1, random);
    EXPECT_EQ(b.last().attrs.s("key"), "h.2.drop");
  }
  for (double p : {1.0, -0.1, std::nan("")}) {
    EXPECT_THAT(refusal_of([&] { dropout(b, "d", x, p, random); }), HasSubstr("is not in [0, 1)"));
  }
  EXPECT_THAT(refusal_of([&] {
                dropout(b, "d", x, 0.1, {x, random.step, random.sample});
              }),
              HasSubstr("seed f32[2,8] is not i64[]"));
}

TEST(Dropout, KeepsShareAndMean) {
  const std::vector<double> y = Draw{.B = 8, .n = 20'000}.run();
  const auto dropped = static_cast<double>(std::count(y.begin(), y.end(), 0.0));
  EXPECT_NEAR(dropped / static_cast<double>(y.size()), 0.25, 0.005);
  EXPECT_NEAR(*std::max_element(y.begin(), y.end()), 1 / 0.75, 1e-6);
}

TEST(Dropout, DoesNotSeeTheMicroBatch) {
  const std::vector<double> whole = Draw{.B = 4}.run();
  const std::vector<double> second = Draw{.B = 2, .first = 2}.run();
  EXPECT_TRUE(std::equal(second.begin(), second.end(), whole.begin() + 2000));
}

TEST(Dropout, MaskDependsOnSeedStepSampleAndName) {
  const std::vector<double> base = Draw{}.run();
  EXPECT_EQ(Draw{}.run(), base);
  EXPECT_NE(Draw{.seed = 2}.run(), base);
  EXPECT_NE(Draw{.step = 1}.run(), base);
  EXPECT_NE(Draw{.first = 1}.run(), base);
  EXPECT_NE(Draw{.key = "h.1.drop"}.run(), base);
}

}  // namespace snug::ops

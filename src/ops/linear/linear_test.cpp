#include "ops/linear/linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "ops/testing/op_check.h"
#include "ops/testing/refusal.h"
#include "ops/testing/run_op.h"

namespace snug::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LinearTest : public ::testing::Test {
 protected:
  ValueId input(std::string name, Shape shape, Dtype dtype = Dtype::f32) {
    return add_shared(module_, std::move(name), {dtype, shape}, Category::inputs, Scope::step);
  }
  std::vector<std::string> kinds() {
    std::vector<std::string> kinds;
    for (const Op& op : b_.program().ops) kinds.emplace_back(op.def->kind);
    return kinds;
  }
  Module module_;
  Builder b_{module_, "p"};
};

}  // namespace

TEST(Linear, Checks) { check_op(linear_def); }
TEST(Linear, ChecksInHalves) { check_op_in_halves(linear_def); }

// Ranks add up what they make of parts of the input: one of them adds the bias.
TEST(Linear, AnotherRankAddsTheBias) {
  const RefTensor x{{Dtype::f32, {1, 2}}, {1, 2}}, w{{Dtype::f32, {1, 2}}, {3, 4}};
  const RefTensor bias{{Dtype::f32, {1}}, {100}};
  EXPECT_THAT(run_op(linear_def, {x, w, bias})[0].v, ElementsAre(111));
  EXPECT_THAT(run_op(linear_def, {x, w, bias}, {{"bias_here", false}})[0].v, ElementsAre(11));
}

TEST(Linear, BitsDoNotDependOnThreads) {
  auto numbers = [](const char* name, Shape shape) {
    RefTensor t{{Dtype::f32, shape}, std::vector<double>(static_cast<size_t>(shape.elements()))};
    for (size_t i = 0; i < t.v.size(); ++i)
      t.v[i] = unit_float(philox(hash_name(name), i)[0]) - 0.5;
    return t;
  };
  const std::vector<RefTensor> inputs = {numbers("x", {77, 1001}), numbers("w", {130, 1001})};
  auto matmul = [&] { return run_op(linear_def, inputs)[0].v; };
  const std::vector<double> alone = with_threads(1, matmul);
  EXPECT_EQ(with_threads(2, matmul), alone);
  EXPECT_EQ(with_threads(3, matmul), alone);
}

TEST_F(LinearTest, ShapesInBothLayouts) {
  const ValueId x = input("x", {2, 3, 4});
  const ValueId y = linear(b_, "out_in", {.x = x, .weight = input("w", {5, 4})});
  EXPECT_EQ(b_.shape(y).text(), "[2,3,5]");
  const ValueId z =
      linear(b_, "in_out", {.x = x, .weight = input("v", {4, 5}), .weight_in_out = true});
  EXPECT_EQ(b_.shape(z).text(), "[2,3,5]");
}

TEST_F(LinearTest, RefusesIncompatibleShapes) {
  const ValueId x = input("x", {8, 768});
  const ValueId w = input("w", {512, 512});
  auto layer = b_.layer(3, "h.3");
  EXPECT_THAT(
      refusal_of([&] { linear(b_, "qkv", {.x = x, .weight = w}); }),
      HasSubstr(
          "linear 'h.3.qkv' (layer 3): x f32[8,768] and weight f32[512,512] do not multiply"));
  EXPECT_THAT(refusal_of([&] { linear(b_, "t", {.x = x, .weight = w, .weight_in_out = true}); }),
              HasSubstr("(stored [in,out]) do not multiply"));
}

TEST_F(LinearTest, RefusesABiasOrResidualOfAnotherShape) {
  const ValueId x = input("x", {8, 6});
  const ValueId w = input("w", {4, 6});
  EXPECT_THAT(refusal_of([&] { linear(b_, "y", {.x = x, .weight = w, .bias = input("b", {6})}); }),
              HasSubstr("bias f32[6] does not fit the result f32[8,4]"));
  EXPECT_THAT(refusal_of([&] { linear(b_, "z", {.x = x, .weight = w, .residual = x}); }),
              HasSubstr("residual f32[8,6] differs from the result f32[8,4]"));
}

TEST_F(LinearTest, RefusesMixedTypes) {
  const ValueId x = input("x", {8, 6}, Dtype::bf16);
  const ValueId w = input("w", {4, 6}, Dtype::bf16);
  const ValueId dy = input("dy", {8, 4});
  EXPECT_THAT(refusal_of([&] {
                linear(b_, "y", {.x = x, .weight = input("v", {4, 6})});
              }),
              HasSubstr("x bf16[8,6] and weight f32[4,6] do not multiply"));
  EXPECT_THAT(refusal_of([&] { linear(b_, "y", {.x = x, .weight = w, .residual = dy}); }),
              HasSubstr("residual f32[8,4] differs from the result bf16[8,4]"));
  EXPECT_THAT(refusal_of([&] {
                b_.emit(linear_grad_input_def, "dx", {dy, w});
              }),
              HasSubstr("dy f32[8,4] and weight bf16[4,6] do not multiply"));
  EXPECT_THAT(refusal_of([&] {
                b_.emit(linear_grad_weight_def, "dw", {x, dy});
              }),
              HasSubstr("x bf16[8,6] and dy f32[8,4] are of different types"));
}

// The gradient of a parameter is kept as told, and what it adds to is of the same type.
TEST_F(LinearTest, GradientsOfParametersFollowTheirOwnType) {
  const ValueId x = input("x", {8, 6}, Dtype::bf16);
  const ValueId dy = input("dy", {8, 4}, Dtype::bf16);
  const Attrs f32{{"grad_dtype", "f32"}};
  auto type_of = [&](const OpDef& def, std::vector<ValueId> inputs, const Attrs& attrs) {
    return module_[b_.emit(def, "d", std::move(inputs), attrs)[0]].type.text();
  };
  EXPECT_EQ(type_of(linear_grad_weight_def, {x, dy}, {}), "bf16[4,6]");
  EXPECT_EQ(type_of(linear_grad_weight_def, {x, dy}, f32), "f32[4,6]");
  EXPECT_EQ(type_of(linear_grad_bias_def, {dy}, f32), "f32[4]");
  EXPECT_THAT(refusal_of([&] {
                b_.emit(linear_grad_weight_def, "dw", {x, dy, input("s", {4, 6})}, {});
              }),
              HasSubstr("dweight_sum f32[4,6] differs from the result bf16[4,6]"));
  for (const char* dtype : {"f64", "i8", "half"}) {
    EXPECT_THAT(refusal_of([&] {
                  b_.emit(linear_grad_weight_def, "dw", {x, dy}, {{"grad_dtype", dtype}});
                }),
                HasSubstr(fmt::format("a gradient cannot be kept in '{}'", dtype)));
  }
}

TEST_F(LinearTest, OnlyTwoByteMatmulsNeedScratch) {
  auto scratch = [&](Dtype dtype, Shape x, Shape weight) {
    linear(b_, "y", {.x = input("x", x, dtype), .weight = input("w", weight, dtype)});
    return cost_of(module_, b_.last(), Backend::cpu).workspace;
  };
  EXPECT_EQ(scratch(Dtype::f32, {64, 32}, {16, 32}), 0);
  EXPECT_EQ(scratch(Dtype::bf16, {64, 32}, {16, 32}), 4 * (64 * 32 + 32 * 16 + 64 * 16));
  EXPECT_EQ(scratch(Dtype::f16, {9000, 5000}, {7000, 5000}), 12 << 20);  // of any large GEMM
}

// By rule from the shape, so that a plan for a GPU can be made anywhere.
TEST_F(LinearTest, GpuMatmulHasLibraryWorkspace) {
  auto scratch = [&](Shape x, Shape weight) {
    linear(b_, "y", {.x = input("x", x), .weight = input("w", weight)});
    return cost_of(module_, b_.last(), Backend::cuda).workspace;
  };
  EXPECT_EQ(scratch({64, 32}, {16, 32}), 4 << 20);
  EXPECT_EQ(scratch({32768, 896}, {1152, 896}), 32 << 20);
}

TEST_F(LinearTest, EmitsOnlyWantedGradients) {
  const ValueId x = input("x", {8, 6});
  const ValueId w = input("w", {6, 6});
  const ValueId y = linear(b_, "y", {.x = x, .weight = w, .bias = input("b", {6}), .residual = x});
  GradContext g(b_, b_.last(), {y}, {false, true, false, true});
  linear_def.grad(g);
  EXPECT_THAT(kinds(), ElementsAre("linear", "linear_grad_weight"));
  EXPECT_EQ(g.input_grads()[3], y);  // the residual's gradient is dy itself
  EXPECT_FALSE(g.input_grads()[0].valid());
}

TEST_F(LinearTest, CountsTwoFlopsPerPair) {
  linear(b_, "y", {.x = input("x", {2, 8, 6}), .weight = input("w", {4, 6})});
  EXPECT_EQ(cost_of(module_, b_.last(), Backend::cpu).flops, 2 * 16 * 6 * 4);
}

}  // namespace snug::ops

#include "ops/linear/linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "ops/testing/op_check.h"
#include "ops/testing/refusal.h"
#include "ops/testing/run_op.h"

namespace snug::ops {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class LinearTest : public testing::Test {
 protected:
  ValueId input(std::string name, Shape shape) {
    return add_shared(module_, std::move(name), {Dtype::f32, shape}, Category::inputs, Scope::step);
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

TEST(Linear, BitsDoNotDependOnThreads) {
  auto numbers = [](const char* name, Shape shape) {
    RefTensor t{{Dtype::f32, shape}, std::vector<double>(static_cast<size_t>(shape.elements()))};
    for (size_t i = 0; i < t.v.size(); ++i)
      t.v[i] = unit_float(philox(hash_name(name), i)[0]) - 0.5;
    return t;
  };
  const std::vector<RefTensor> inputs = {numbers("x", {77, 1001}), numbers("w", {130, 1001})};
  auto product = [&] { return run_op(linear_def, inputs)[0].v; };
  const std::vector<double> alone = with_threads(1, product);
  EXPECT_EQ(with_threads(2, product), alone);
  EXPECT_EQ(with_threads(3, product), alone);
}

TEST_F(LinearTest, ShapesInBothLayouts) {
  const ValueId x = input("x", {2, 3, 4});
  const ValueId y = linear(b_, "out_in", {.x = x, .weight = input("w", {5, 4})});
  EXPECT_EQ(b_.shape(y).text(), "[2,3,5]");
  const ValueId z =
      linear(b_, "in_out", {.x = x, .weight = input("v", {4, 5}), .weight_in_out = true});
  EXPECT_EQ(b_.shape(z).text(), "[2,3,5]");
}

TEST_F(LinearTest, RefusesWhatDoesNotMultiply) {
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

TEST_F(LinearTest, EmitsOnlyTheGradientsThatAreWanted) {
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

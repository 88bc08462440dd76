#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/basic/add.h"
#include "ops/basic/assign.h"
#include "ops/basic/cast.h"
#include "ops/basic/copy.h"
#include "ops/basic/fill.h"
#include "ops/basic/is_finite.h"
#include "ops/basic/multiply.h"
#include "ops/testing/op_check.h"
#include "ops/testing/refusal.h"
#include "ops/testing/run_op.h"

namespace snug::ops {
namespace {

using ::testing::HasSubstr;

ValueId input(Module& m, std::string name, Type type) {
  return add_shared(m, std::move(name), type, Category::inputs, Scope::step);
}

}  // namespace

TEST(Add, Checks) { check_op(add_def); }
TEST(Copy, Checks) { check_op(copy_def); }
TEST(Fill, Checks) { check_op(fill_def); }
TEST(Assign, Checks) { check_op(assign_def); }
TEST(Cast, Checks) { check_op(cast_def); }
TEST(Multiply, Checks) { check_op(multiply_def); }
TEST(IsFinite, Checks) { check_op(is_finite_def); }

TEST(Basic, ChecksInHalves) {
  for (const OpDef* def : {&add_def, &copy_def, &cast_def, &multiply_def}) check_op_in_halves(*def);
}

TEST(Add, RefusesDifferentTypes) {
  Module m;
  Builder b(m, "p");
  const ValueId x = input(m, "x", {Dtype::f32, {2, 3}});
  const ValueId y = input(m, "y", {Dtype::f32, {3, 2}});
  EXPECT_THAT(refusal_of([&] { add(b, "sum", x, y); }),
              HasSubstr("add 'sum': a f32[2,3] and b f32[3,2] differ"));
}

TEST(Add, HalvesAreSummedInF32AndRoundedOnce) {
  const RefTensor a{{Dtype::bf16, {2}}, {1, 256}}, b{{Dtype::bf16, {2}}, {0x1p-8, 1.5}};
  EXPECT_THAT(run_op(add_def, {a, b})[0].v, ::testing::ElementsAre(1, 258));  // ties go to even
}

TEST(Assign, RefusesUnreadableValues) {
  Module m;
  Builder b(m, "p");
  const ValueId weight = input(m, "w", {Dtype::bf16, {2}});
  EXPECT_THAT(refusal_of([&] {
                assign(b, "round", weight, input(m, "m", {Dtype::f64, {2}}));
              }),
              HasSubstr("target bf16[2] cannot be made from f64[2]"));
  EXPECT_THAT(refusal_of([&] {
                assign(b, "round", weight, input(m, "n", {Dtype::f32, {3}}));
              }),
              HasSubstr("target bf16[2] cannot be made from f32[3]"));
}

TEST(Multiply, DifferentiatesOnlyWantedInputs) {
  Module m;
  Builder b(m, "p");
  const ValueId x = input(m, "x", {Dtype::f32, {}});
  const ValueId scale = input(m, "scale", {Dtype::f32, {}});
  const ValueId y = multiply(b, "scaled", x, scale);
  GradContext g(b, b.last(), {y}, {true, false});
  multiply_def.grad(g);
  EXPECT_THAT(b.program().ops, ::testing::SizeIs(2));
  EXPECT_EQ(b.last().inputs, (std::vector{y, scale}));
  EXPECT_FALSE(g.input_grads()[1].valid());
  EXPECT_THAT(refusal_of([&] {
                multiply(b, "m", x, input(m, "v", {Dtype::f32, {2}}));
              }),
              HasSubstr("multiply 'm': a f32[] and b f32[2] differ"));
}

TEST(IsFinite, RefusesAnythingButAnF32Scalar) {
  Module m;
  Builder b(m, "p");
  EXPECT_THAT(refusal_of([&] {
                is_finite(b, "ok", input(m, "x", {Dtype::f32, {2}}));
              }),
              HasSubstr("is_finite 'ok': x f32[2] is not f32[]"));
  EXPECT_THAT(refusal_of([&] {
                is_finite(b, "ok", input(m, "h", {Dtype::f16, {}}));
              }),
              HasSubstr("x f16[] is not f32[]"));
}

TEST(Copy, GradientIsCopiedBack) {
  Module m;
  Builder b(m, "p");
  const ValueId x = input(m, "x", {Dtype::f32, {2, 3}});
  const ValueId there = copy(b, "out", x, Space::host);
  EXPECT_EQ(m[there].space, Space::host);

  GradContext across(b, b.last(), {there}, {true});
  copy_def.grad(across);
  EXPECT_EQ(m[across.input_grads()[0]].space, Space::device);

  const ValueId here = copy(b, "same", x);
  GradContext inside(b, b.last(), {here}, {true});
  copy_def.grad(inside);
  EXPECT_EQ(inside.input_grads()[0], here);  // no op: dy itself
}

TEST(Fill, KeepsTypeAndRefusesBadText) {
  Module m;
  Builder b(m, "p");
  const Type type{Dtype::i32, {4, 5}};
  EXPECT_EQ(b.type(fill(b, "ones", type, 1)), type);
  EXPECT_EQ(b.type(fill(b, "one", {Dtype::f32, {}}, 1)).text(), "f32[]");
  auto refused = [&](const char* dtype, const char* shape) {
    return refusal_of([&] {
      b.emit(fill_def, "f", {}, {{"dtype", dtype}, {"shape", shape}, {"value", 0.0}});
    });
  };
  EXPECT_THAT(refused("f33", "[2]"), HasSubstr("dtype 'f33' is not known"));
  EXPECT_THAT(refused("f32", "2,3"), HasSubstr("not of the form"));
  EXPECT_THAT(refused("f32", "[2,-3]"), HasSubstr("'-3' in shape"));
  EXPECT_THAT(refused("f32", "[2,x]"), HasSubstr("'x' in shape"));
  EXPECT_THAT(refused("f32", "[1,1,1,1,1,1,1]"), HasSubstr("over 6 axes"));
  EXPECT_NE(refused("f32", "[4611686018427387904]"), "");
}

TEST(Cast, RefusesUnknownDtypeAndIntegerGradients) {
  Module m;
  Builder b(m, "p");
  const ValueId x = input(m, "x", {Dtype::f32, {2, 3}});
  EXPECT_THAT(refusal_of([&] {
                b.emit(cast_def, "c", {x}, {{"to", "f8"}});
              }),
              HasSubstr("dtype 'f8' is not known"));
  cast(b, "c", x, Dtype::i32);
  GradContext g(b, b.last(), {ValueId{}}, {true});
  cast_def.grad(g);
  EXPECT_FALSE(g.input_grads()[0].valid());
}

}  // namespace snug::ops

#include "ops/embedding/embedding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/testing/op_check.h"
#include "ops/testing/refusal.h"

namespace snug::ops {
namespace {

using testing::HasSubstr;

class EmbeddingTest : public testing::Test {
 protected:
  ValueId input(std::string name, Type type) {
    return add_shared(module_, std::move(name), type, Category::inputs, Scope::step);
  }
  std::string refusal(const Embedding& e) {
    return refusal_of([&] { embedding(b_, "embed", e); });
  }
  Module module_;
  Builder b_{module_, "p"};
  ValueId tokens_ = input("tokens", {Dtype::i32, {2, 16}});
  ValueId table_ = input("table", {Dtype::f32, {100, 8}});
};

}  // namespace

TEST(Embedding, Checks) { check_op(embedding_def); }

TEST_F(EmbeddingTest, RefusesASequenceLongerThanThePositions) {
  const ValueId positions = input("positions", {Dtype::f32, {12, 8}});
  EXPECT_THAT(
      refusal({tokens_, table_, positions}),
      HasSubstr("embedding 'embed': positions has 12 rows, but the sequence length needs 16"));
}

TEST_F(EmbeddingTest, RefusesTablesThatDoNotMatch) {
  EXPECT_THAT(refusal({tokens_, table_, input("p", {Dtype::f32, {16, 9}})}),
              HasSubstr("positions f32[16,9] does not match table f32[100,8]"));
  EXPECT_THAT(
      refusal({.tokens = tokens_, .table = table_, .types = input("t", {Dtype::f32, {0, 8}})}),
      HasSubstr("types has 0 rows, but type 0 needs 1"));
  EXPECT_THAT(refusal({input("i", {Dtype::i64, {2, 16}}), table_}), HasSubstr("are not i32[B,T]"));
  EXPECT_THAT(refusal({tokens_, input("v", {Dtype::f32, {8}})}), HasSubstr("is not [V,C]"));
}

TEST_F(EmbeddingTest, EmitsOnlyTheGradientsThatAreWanted) {
  const ValueId positions = input("positions", {Dtype::f32, {32, 8}});
  const ValueId y = embedding(b_, "embed", {tokens_, table_, positions});
  GradContext g(b_, b_.last(), {y}, {false, false, true, false});
  embedding_def.grad(g);
  EXPECT_THAT(b_.program().ops, testing::SizeIs(2));
  EXPECT_EQ(b_.last().def, &embedding_grad_positions_def);
  EXPECT_EQ(b_.shape(g.input_grads()[2]), (Shape{32, 8}));
}

}  // namespace snug::ops

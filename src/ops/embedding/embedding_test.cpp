#include "ops/embedding/embedding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "ops/testing/op_check.h"
#include "ops/testing/refusal.h"
#include "ops/testing/run_op.h"

namespace snug::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class EmbeddingTest : public ::testing::Test {
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
TEST(Embedding, ChecksInHalves) { check_op_in_halves(embedding_def); }

// 1000 times 1/4 and the 1000 that was there: a bf16 that rounds after every token would stay at
// 1000, where one unit is 4.
TEST(Embedding, GradientsOfAFrequentTokenAreRoundedOnce) {
  const auto ones = [](double v) { return std::vector<double>(1000, v); };
  const RefTensor dy{{Dtype::bf16, {1000, 1, 1}}, ones(0.25)};
  const RefTensor tokens{{Dtype::i32, {1000, 1}}, ones(1)};
  const auto sum = [](Dtype dtype) { return RefTensor{{dtype, {2, 1}}, {1000, 1000}}; };
  const auto grad = [&](const OpDef& def, const char* dtype, const RefTensor& start) {
    const std::vector<RefTensor> in =
        &def == &embedding_grad_def ? std::vector{dy, tokens, start} : std::vector{dy, start};
    return run_op(def, in, {{"rows", 2}, {"grad_dtype", dtype}})[0].v;
  };
  EXPECT_THAT(grad(embedding_grad_def, "bf16", sum(Dtype::bf16)), ElementsAre(1000, 1248));
  EXPECT_THAT(grad(embedding_grad_def, "f32", sum(Dtype::f32)), ElementsAre(1000, 1250));
  for (const OpDef* def : {&embedding_grad_positions_def, &embedding_grad_types_def}) {
    EXPECT_THAT(grad(*def, "bf16", sum(Dtype::bf16)), ElementsAre(1248, 1000)) << def->kind;
    EXPECT_THAT(grad(*def, "f32", sum(Dtype::f32)), ElementsAre(1250, 1000)) << def->kind;
  }
}

TEST_F(EmbeddingTest, RefusesASumInAnotherTypeThanItsGradient) {
  const ValueId dy = input("dy", {Dtype::bf16, {2, 16, 8}});
  const ValueId sum = input("sum", {Dtype::bf16, {100, 8}});
  EXPECT_THAT(refusal_of([&] {
                b_.emit(embedding_grad_def, "g", {dy, tokens_, sum},
                        {{"rows", 100}, {"grad_dtype", "f32"}});
              }),
              HasSubstr("dtable_sum bf16[100,8] differs from the result f32[100,8]"));
}

TEST_F(EmbeddingTest, RefusesASequenceLongerThanThePositions) {
  const ValueId positions = input("positions", {Dtype::f32, {12, 8}});
  EXPECT_THAT(
      refusal({tokens_, table_, positions}),
      HasSubstr("embedding 'embed': positions has 12 rows, but the sequence length needs 16"));
}

TEST_F(EmbeddingTest, RefusesMismatchedTables) {
  EXPECT_THAT(refusal({tokens_, table_, input("p", {Dtype::f32, {16, 9}})}),
              HasSubstr("positions f32[16,9] does not match table f32[100,8]"));
  EXPECT_THAT(
      refusal({.tokens = tokens_, .table = table_, .types = input("t", {Dtype::f32, {0, 8}})}),
      HasSubstr("types has 0 rows, but type 0 needs 1"));
  EXPECT_THAT(refusal({input("i", {Dtype::i64, {2, 16}}), table_}), HasSubstr("are not i32[B,T]"));
  EXPECT_THAT(refusal({tokens_, input("v", {Dtype::f32, {8}})}), HasSubstr("is not [V,C]"));
}

// Three tokens are the padding, in one of them what the sum held must stay.
TEST(Embedding, PaddingTokenGetsNoLookupGradient) {
  const RefTensor dy{{Dtype::f32, {2, 3, 1}}, {1, 2, 4, 8, 16, 32}};
  const RefTensor tokens{{Dtype::i32, {2, 3}}, {2, 0, 1, 0, 2, 0}};
  const RefTensor sum{{Dtype::f32, {3, 1}}, {100, 200, 300}};
  auto grad = [&](const RefTensor& start, const Attrs& attrs) {
    const RefTensor kernel = run_op(embedding_grad_def, {dy, tokens, start}, attrs)[0];
    RefTensor reference{kernel.type, std::vector<double>(kernel.v.size())};
    const std::array<const RefTensor*, 3> in{&dy, &tokens, start.v.empty() ? nullptr : &start};
    const std::array<RefTensor*, 1> out{&reference};
    embedding_grad_def.reference(RefArgs{in, out, attrs});
    EXPECT_EQ(kernel.v, reference.v);
    return kernel.v;
  };
  EXPECT_THAT(grad(absent(), {{"rows", 3}}), ElementsAre(42, 4, 17));
  EXPECT_THAT(grad(absent(), {{"rows", 3}, {"padding", 0}}), ElementsAre(0, 4, 17));
  EXPECT_THAT(grad(sum, {{"rows", 3}, {"padding", 0}}), ElementsAre(100, 204, 317));
  EXPECT_THAT(grad(sum, {{"rows", 3}, {"padding", 2}}), ElementsAre(142, 204, 300));
}

TEST_F(EmbeddingTest, TableGradientHasPaddingToken) {
  for (const int64_t padding : {-1, 0, 99}) {
    const ValueId y = embedding(b_, fmt::format("embed{}", padding),
                                {.tokens = tokens_, .table = table_, .padding = padding});
    EXPECT_EQ(b_.last().attrs.has("padding"), padding >= 0);
    GradContext g(b_, b_.last(), {y}, {true, false, false, false});
    embedding_def.grad(g);
    EXPECT_EQ(b_.last().def, &embedding_grad_def);
    EXPECT_EQ(b_.last().attrs.i("padding", -1), padding);
    EXPECT_EQ(b_.last().attrs.has("padding"), padding >= 0);
  }
}

TEST_F(EmbeddingTest, RefusesAPaddingTokenOutsideTheTable) {
  EXPECT_THAT(refusal({.tokens = tokens_, .table = table_, .padding = 100}),
              HasSubstr("padding token 100 is not one of the 100 rows"));
  EXPECT_THAT(refusal({.tokens = tokens_, .table = table_, .padding = -2}),
              HasSubstr("padding token -2"));
}

// Samples of 2, 1 and 3 tokens: the positions of each begin at 0, and so do their gradients.
TEST(Embedding, PositionsRestartWithEachSample) {
  const RefTensor tokens{{Dtype::i32, {1, 6}}, std::vector<double>(6)};
  const RefTensor starts{{Dtype::i32, {1, 6}}, {0, 0, 2, 3, 3, 3}};
  const RefTensor table{{Dtype::f32, {1, 1}}, {100}};
  const RefTensor positions{{Dtype::f32, {6, 1}}, {1, 2, 3, 4, 5, 6}};
  EXPECT_THAT(run_op(embedding_def, {table, tokens, positions, absent(), starts}, {})[0].v,
              ElementsAre(101, 102, 101, 101, 102, 103));
  const RefTensor dy{{Dtype::f32, {1, 6, 1}}, {1, 2, 4, 8, 16, 32}};
  const auto grad = [&](const RefTensor& sum) {
    return run_op(embedding_grad_positions_def, {dy, sum, starts}, {{"rows", 6}})[0].v;
  };
  EXPECT_THAT(grad(absent()), ElementsAre(13, 18, 32, 0, 0, 0));
  EXPECT_THAT(grad({{Dtype::f32, {6, 1}}, {100, 200, 300, 400, 500, 600}}),
              ElementsAre(113, 218, 332, 400, 500, 600));
}

TEST_F(EmbeddingTest, RefusesStartsOfWrongShape) {
  EXPECT_THAT(refusal({.tokens = tokens_,
                       .table = table_,
                       .positions = input("positions", {Dtype::f32, {16, 8}}),
                       .starts = input("starts", {Dtype::i32, {2, 15}})}),
              HasSubstr("starts is i32[2,15], not i32[2,16]"));
}

// A gradient that is added to in place touches the rows of its tokens alone.
TEST_F(EmbeddingTest, CudaTableSkipsUnusedRows) {
  const ValueId dy = input("dy", {Dtype::f32, {2, 16, 8}});
  const auto cost = [&](int64_t rows) {
    const ValueId sum = input(fmt::format("sum{}", rows), {Dtype::f32, {rows, 8}});
    b_.emit(embedding_grad_def, fmt::format("g{}", rows), {dy, tokens_, sum}, {{"rows", rows}});
    return cost_of(module_, b_.last(), Backend::cuda);
  };
  EXPECT_EQ(cost(100).workspace, cost(100'000).workspace);
  EXPECT_EQ(cost(101).bytes_written, 2 * 16 * 8 * 4);
  EXPECT_EQ(cost(100'001).bytes_written, 2 * 16 * 8 * 4);
}

TEST_F(EmbeddingTest, EmitsOnlyWantedGradients) {
  const ValueId positions = input("positions", {Dtype::f32, {32, 8}});
  const ValueId y = embedding(b_, "embed", {tokens_, table_, positions});
  GradContext g(b_, b_.last(), {y}, {false, false, true, false});
  embedding_def.grad(g);
  EXPECT_THAT(b_.program().ops, ::testing::SizeIs(2));
  EXPECT_EQ(b_.last().def, &embedding_grad_positions_def);
  EXPECT_EQ(b_.shape(g.input_grads()[2]), (Shape{32, 8}));
}

}  // namespace snug::ops

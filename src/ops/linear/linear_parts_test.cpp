#include "ops/linear/linear_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/testing/op_check.h"
#include "ops/testing/refusal.h"

namespace snug::ops {
namespace {

using ::testing::HasSubstr;

ValueId input(Module& module, std::string name, Shape shape) {
  return add_shared(module, std::move(name), {Dtype::f32, shape}, Category::inputs, Scope::step);
}

}  // namespace

TEST(LinearParts, Checks) { check_op(linear_parts_def); }
TEST(LinearParts, ChecksInHalves) { check_op_in_halves(linear_parts_def); }

TEST(LinearParts, HasOffsetsOfItsParts) {
  const std::vector<LinearPart> parts = parts_of({{"parts", "8,-3,4"}}, /*r=*/2);
  ASSERT_EQ(parts.size(), 3);
  EXPECT_FALSE(parts[1].reached);
  EXPECT_EQ(parts[2].first_output, 11);
  EXPECT_EQ(parts[2].first_row, 8);
  EXPECT_EQ(parts[2].first_input, 2);
}

TEST(LinearParts, RefusesIncompatibleShapes) {
  Module module;
  Builder b(module, "p");
  const auto of = [&](Shape x, Shape weight, std::vector<int64_t> parts) {
    return refusal_of([&] {
      linear_parts(
          b, "y",
          {.x = input(module, "x", x), .weight = input(module, "w", weight), .parts = parts});
    });
  };
  EXPECT_THAT(of({5, 8}, {12, 4}, {6, 5}), HasSubstr("do not multiply in parts 6,5"));
  EXPECT_THAT(of({5, 9}, {12, 4}, {6, 6}), HasSubstr("x f32[5,9] and weight f32[12,4]"));
  EXPECT_THAT(of({5, 8}, {12, 4}, {-12}), HasSubstr("'-12' is no list of parts"));
}

}  // namespace snug::ops

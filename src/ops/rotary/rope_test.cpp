#include "ops/rotary/rope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/rotary/rope_frequency.h"
#include "ops/testing/op_check.h"

namespace snug::ops {
namespace {

TEST(Rope, Checks) { check_op(rope_def); }
TEST(Rope, ChecksInHalves) { check_op_in_halves(rope_def); }

// Llama 3.2 1B's settings; the numbers are those of transformers' ROPE_INIT_FUNCTIONS["llama3"] (in
// float).
TEST(Rope, Llama3FrequenciesMatchTransformers) {
  const Attrs attrs{{"head_dim", 64},
                    {"theta", 500000.0},
                    {"scaling", "llama3"},
                    {"factor", 32.0},
                    {"low_freq_factor", 1.0},
                    {"high_freq_factor", 4.0},
                    {"original_positions", 8192}};
  const std::pair<int64_t, double> expected[] = {
      {0, 1.0},
      {1, 0.663601279258728},
      {14, 0.0032114461064338684},  // kept
      {15, 0.0012905480107292533},
      {16, 0.000429556705057621},
      {17, 9.708286233944818e-05},  // blended
      {18, 1.9461638657958247e-05},
      {31, 9.418306490260875e-08},  // divided
  };
  for (const auto& [i, frequency] : expected) {
    EXPECT_NEAR(rope_frequency(i, attrs), frequency, 1e-5 * frequency) << "pair " << i;
  }
}

// StableLM 3B's: a quarter of each head of 80 turns, as 20 elements of their own would.
TEST(Rope, FrequenciesOfPartMatchSmallerHead) {
  const Attrs part{{"head_dim", 80}, {"rotary_dim", 20}, {"theta", 10000.0}};
  const Attrs small{{"head_dim", 20}, {"theta", 10000.0}};
  for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(rope_frequency(i, part), rope_frequency(i, small));
}

std::string refusal(const Rope& p) {
  Module module{.name = "test"};
  Builder b(module, "test");
  Rope op = p;
  op.qkv = add_shared(module, "qkv", {Dtype::f32, {2, 8, 80}}, Category::inputs, Scope::step);
  try {
    rope(b, "h.3.rope", op);
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Rope, RefusesBadShapes) {
  using ::testing::HasSubstr;
  const RopeScaling stopped{.kind = RopeScaling::Kind::linear, .factor = 0};
  const RopeScaling crossed{
      .kind = RopeScaling::Kind::llama3, .low_freq_factor = 4, .high_freq_factor = 1};
  EXPECT_EQ(refusal({.heads = 6, .kv_heads = 2, .head_dim = 8}), "accepted");
  EXPECT_THAT(refusal({.heads = 12, .kv_heads = 2, .head_dim = 5}), HasSubstr("head_dim 5 is odd"));
  EXPECT_THAT(refusal({.heads = 6, .kv_heads = 2, .head_dim = 8, .rotary_dim = 3}),
              HasSubstr("rotary_dim 3 is odd"));
  EXPECT_THAT(refusal({.heads = 5, .kv_heads = 2, .head_dim = 8}), HasSubstr("evenly"));
  EXPECT_THAT(refusal({.heads = 2, .kv_heads = 2, .head_dim = 8}), HasSubstr("need 48"));
  EXPECT_THAT(refusal({.heads = 6, .kv_heads = 2, .head_dim = 8, .theta = 0}),
              HasSubstr("theta 0"));
  EXPECT_THAT(refusal({.heads = 6, .kv_heads = 2, .head_dim = 8, .scaling = stopped}),
              HasSubstr("factor 0"));
  EXPECT_THAT(refusal({.heads = 6, .kv_heads = 2, .head_dim = 8, .scaling = crossed}),
              HasSubstr("low_freq_factor 4"));
}

}  // namespace
}  // namespace snug::ops

#include "models/scaled.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "models/families/catalogue.h"
#include "models/model.h"

namespace snug {
namespace {

TEST(Scaled, NamesEndInWidthAndLayers) {
  const auto named = parse_scaled("models/my-llama:512x12");
  ASSERT_TRUE(named);
  EXPECT_EQ(named->base, "models/my-llama");
  EXPECT_EQ(named->C, 512);
  EXPECT_EQ(named->L, 12);
  for (const char* other : {"llama-7b", "llama-7b:", "llama-7b:512", "llama-7b:512x", ":512x12",
                            "llama-7b:0x3", "llama-7b:512x12b"})
    EXPECT_FALSE(parse_scaled(other)) << other;
  EXPECT_EQ(scaled_name("gpt2", 1024, 16), "gpt2:1024x16");
  EXPECT_EQ(scaled_name("mlp:4096x48", 128, 2), "mlp:128x2");
}

TEST(Scaled, ModelAtOwnSizeIsUnchanged) {
  for (const std::string& name : catalogue_names()) {
    const Model base = Model::load(name);
    const ModelConfig& c = base.config();
    const Model same = Model::load(scaled_name(name, c.C, c.L));
    EXPECT_EQ(same.config_json(), base.config_json()) << name;
    EXPECT_EQ(c.C % width_step(c), 0) << name;
    EXPECT_EQ(layers_at(c, c.C), c.L) << name;
  }
}

TEST(Scaled, KeepsRatiosOfFamily) {
  const ModelConfig small = Model::load("llama-8b:2048x16").config();
  EXPECT_EQ(small.C, 2048);
  EXPECT_EQ(small.L, 16);
  EXPECT_EQ(small.D, 128);
  EXPECT_EQ(small.H, 16);
  EXPECT_EQ(small.K, 4);  // one in four, as 8 of 32
  EXPECT_EQ(small.F, 7168);
  EXPECT_EQ(small.V, 128256);
  // 13 heads cannot be shared by sevens: one for all of them is nearest to two of 14.
  EXPECT_EQ(Model::load("qwen2.5-0.5b:832x22").config().K, 1);
}

TEST(Scaled, DepthGrowsWithWidthAsInTheFamily) {
  const ModelConfig c = Model::load("llama-7b").config();
  EXPECT_EQ(layers_at(c, 5120), 40);  // Llama 13B
  EXPECT_EQ(layers_at(c, 128), 1);
  EXPECT_EQ(width_step(c), 128);
}

TEST(Scaled, RefusesHalfAHead) {
  try {
    Model::load("gpt2:800x4");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    EXPECT_STREQ(e.what(), "'gpt2:800x4': a width of 800 is not a whole number of gpt2's heads");
    EXPECT_EQ(e.hint(), "widths are multiples of 64");
  }
}

TEST(Scaled, RefusesAbsurdWidthsAtOnce) {
  EXPECT_THROW(Model::load("llama-7b:1099511627776x2"), Error);
  EXPECT_THROW(Model::load("gpt2:4611686018427387904x2"), Error);
  EXPECT_THROW(Model::load("gpt2:64x4611686018427387904"), Error);
}

}  // namespace
}  // namespace snug

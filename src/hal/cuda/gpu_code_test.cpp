#include "hal/cuda/gpu_code.h"

#include <gtest/gtest.h>

namespace snug {
namespace {

TEST(GpuCode, ReadsCMakeArchitectures) {
  using Built = BuiltArchitecture;
  EXPECT_EQ(architectures_of("80-real/90-virtual/120"),
            (std::vector<Built>{{.capability = 80, .native = true},
                                {.capability = 90, .ptx = true},
                                {.capability = 120, .native = true, .ptx = true}}));
  EXPECT_EQ(architectures_of("90a-real"),
            (std::vector<Built>{{.capability = 90, .native = true, .only_this = true}}));
  EXPECT_TRUE(architectures_of("").empty());
  EXPECT_TRUE(architectures_of("native").empty()) << "it says nothing of the numbers";
}

TEST(GpuCode, NativeWithinGenerationPtxBeyond) {
  const auto hopper = architectures_of("90");
  EXPECT_EQ(code_for(hopper, 90), GpuCode::native);
  EXPECT_EQ(code_for(hopper, 100), GpuCode::ptx);
  EXPECT_EQ(code_for(hopper, 89), GpuCode::none) << "nothing runs on what is older";
  const auto all = architectures_of("80-real/86-real/89-real/90-real/100-real/120");
  for (const int capability : {80, 86, 87, 89, 90, 100, 103, 120, 121})
    EXPECT_EQ(code_for(all, capability), GpuCode::native) << capability;
  EXPECT_EQ(code_for(all, 130), GpuCode::ptx);
  EXPECT_EQ(code_for(all, 75), GpuCode::none);
  EXPECT_EQ(code_for(architectures_of("90a"), 103), GpuCode::none);
  EXPECT_EQ(code_for({}, 90), GpuCode::none);
}

TEST(GpuFeatures, DependOnGeneration) {
  EXPECT_FALSE(features_of(75).supported);
  EXPECT_TRUE(features_of(80).supported && features_of(80).tensor_cores);
  EXPECT_FALSE(features_of(86).fp8);
  EXPECT_TRUE(features_of(89).fp8);
  EXPECT_FALSE(features_of(89).clusters || features_of(89).early_launches);
  EXPECT_TRUE(features_of(90).clusters && features_of(120).early_launches);
}

}  // namespace
}  // namespace snug

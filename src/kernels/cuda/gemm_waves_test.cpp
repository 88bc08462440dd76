#include "kernels/cuda/gemm_waves.h"

#include <gtest/gtest.h>

#include <array>

namespace snug::ops {

// On an H200: the 7B's narrow GEMMs, and those of three models that fill their waves.
TEST(RowsOfWholeWaves, SplitsNearlyEmptyLastWave) {
  constexpr int64_t kMultiprocessors = 132;
  EXPECT_EQ(rows_of_whole_waves(4096, 3584, kMultiprocessors), 3584);
  EXPECT_EQ(rows_of_whole_waves(4096, 4608, kMultiprocessors), 3712);
  EXPECT_EQ(rows_of_whole_waves(4096, 37888, kMultiprocessors), 0);
  EXPECT_EQ(rows_of_whole_waves(16384, 1536, kMultiprocessors), 0);
  EXPECT_EQ(rows_of_whole_waves(32768, 896, kMultiprocessors), 0);
}

TEST(RowsOfWholeWaves, KeepsSingleWave) {
  EXPECT_EQ(rows_of_whole_waves(128, 256, 132), 0);
  EXPECT_EQ(rows_of_whole_waves(1, 1, 132), 0);
  EXPECT_EQ(rows_of_whole_waves(128 * 132, 256, 132), 0);
}

TEST(RowsOf, AreAGemmOfTheirOwn) {
  std::array<std::byte, 4096> memory;
  CudaGemm p{.m = 8, .n = 6, .k = 4, .c_dtype = Dtype::f32};
  p.a = memory.data();
  p.b = memory.data() + 1024;
  p.c = memory.data() + 2048;
  p.c_stride = 10;
  const CudaGemm first = rows_of(p, 0, 5);
  EXPECT_EQ(first.m, 5);
  EXPECT_TRUE(first.part);
  EXPECT_EQ(first.a, p.a);
  EXPECT_EQ(first.c, p.c);
  const CudaGemm rest = rows_of(p, 5, 3);
  EXPECT_EQ(rest.m, 3);
  EXPECT_EQ(rest.a, memory.data() + 5 * 4 * 2);
  EXPECT_EQ(rest.b, p.b);
  EXPECT_EQ(rest.c, memory.data() + 2048 + 5 * 10 * 4);
  EXPECT_EQ(rest.sum, nullptr);
  p.sum = p.c;
  EXPECT_EQ(rows_of(p, 5, 3).sum, rest.c);
}

}  // namespace snug::ops

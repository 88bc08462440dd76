#include "ops/quantize/codebook_cpu.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <vector>

#include "base/rng.h"

namespace snug::ops {
namespace {

const Codebook* const kBooks[] = {&kSignedCodes, &kUnsignedCodes};

TEST(Codebook, Holds256DifferentNumbersInOrder) {
  for (const Codebook* book : kBooks) {
    EXPECT_TRUE(std::is_sorted(book->values.begin(), book->values.end()));
    const std::set<float> values(book->values.begin(), book->values.end());
    EXPECT_EQ(values.size(), 256U);
    EXPECT_TRUE(values.contains(0.0F));
    EXPECT_TRUE(values.contains(1.0F));
  }
  EXPECT_EQ(kUnsignedCodes.values[0], 0);
  EXPECT_FLOAT_EQ(kSignedCodes.values[0], -(1.0F - 0.45F / 64));
  EXPECT_FLOAT_EQ(kSignedCodes.values[128], 0.55e-6F);
  EXPECT_FLOAT_EQ(kUnsignedCodes.values[1], 0.325e-6F);
}

int32_t code_of(const Codebook& book, float x) {
  int32_t key = 0;
  uint8_t code = 0;
  nearest_codes(book, 1, &x, &key, &code);
  return code;
}

TEST(Codebook, FindsTheNearest) {
  for (const Codebook* book : kBooks) {
    const bool has_sign = book->values[0] < 0;
    for (uint64_t draw = 0; draw < 4000; ++draw) {
      const auto bits = philox(9, draw);
      const float size = std::pow(10.0F, -8 * unit_float(bits[1]));
      const float x = size * (has_sign ? 2 * unit_float(bits[0]) - 1 : unit_float(bits[0]));
      float least = 2;
      for (float value : book->values) least = std::min(least, std::abs(value - x));
      EXPECT_EQ(std::abs(book->values[static_cast<size_t>(code_of(*book, x))] - x), least) << x;
    }
  }
}

// How many bounds lie below x: one at a time.
int32_t plain_code(const Codebook& book, float x) {
  return static_cast<int32_t>(
      std::ranges::count_if(book.bounds, [x](float bound) { return bound < x; }));
}

void expect_plain_codes_around(const Codebook& book, float x) {
  const float down = std::nextafter(x, -2.0F), up = std::nextafter(x, 2.0F);
  for (float near : {x, down, up, -x, -down, -up})
    EXPECT_EQ(code_of(book, near), plain_code(book, near)) << fmt::format("{:a}", near);
}

TEST(Codebook, TableMatchesPlainSearch) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Codebook* book : kBooks) {
    for (float x : {0.0F, 1.0F, 1e-45F, 1e-40F, 0x1p-126F, 0x1p-23F, 2.0F, inf, nan})
      expect_plain_codes_around(*book, x);
    for (float bound : book->bounds) expect_plain_codes_around(*book, bound);
    for (float value : book->values) expect_plain_codes_around(*book, value);
    for (int32_t cell = 0; cell < Cells::kCount; ++cell)
      expect_plain_codes_around(*book,
                                std::bit_cast<float>(Cells::kFirst + (cell << Cells::kLowBits)));
    for (uint64_t draw = 0; draw < 20000; ++draw)
      expect_plain_codes_around(*book, std::bit_cast<float>(philox(5, draw)[0] & 0x3FFFFFFF));
  }
}

std::vector<float> normals(int64_t n, double scale) {
  std::vector<float> x;
  for (int64_t i = 0; i < n; ++i)
    x.push_back(static_cast<float>(scale * normal_pair(4, static_cast<uint64_t>(i))[0]));
  return x;
}

// Half of the widest gap: 0.9 / 64 between the signed codes of the highest power, half of that
// without a sign.
TEST(Blockwise, ErrorIsWithinHalfAGap) {
  for (double scale : {1e-30, 1e-3, 1.0, 1e30}) {
    std::vector<float> x = normals(kDynamic8.block, scale), back(x.size());
    std::vector<uint8_t> codes(x.size());
    for (const Codebook* book : kBooks) {
      const bool has_sign = book->values[0] < 0;
      if (!has_sign) {
        for (float& v : x) v = std::abs(v);
      }
      const float largest = quantize(*book, kDynamic8.block, x.data(), codes.data());
      dequantize(*book, kDynamic8.block, codes.data(), largest, back.data());
      for (size_t i = 0; i < x.size(); ++i) {
        EXPECT_LE(std::abs(x[i] - back[i]), largest * (has_sign ? 0.00704F : 0.00352F));
        // Small numbers keep their size: each power of ten has codes of its own.
        if (std::abs(x[i]) > 1e-3F * largest) {
          EXPECT_LE(std::abs(x[i] - back[i]), 0.3F * std::abs(x[i]));
        }
      }
    }
  }
}

TEST(Blockwise, ZeroBytesDecodeToZeros) {
  const std::vector<uint8_t> zero(kDynamic8.block);
  std::vector<float> x(kDynamic8.block, 5);
  for (const Codebook* book : kBooks) {
    dequantize(*book, kDynamic8.block, zero.data(), 0, x.data());
    for (float v : x) EXPECT_EQ(v, 0);
    std::vector<uint8_t> codes(kDynamic8.block);
    EXPECT_EQ(quantize(*book, kDynamic8.block, x.data(), codes.data()), 0);
  }
}

TEST(Blockwise, DivisorNeverBecomesZero) {
  const std::vector<float> v{1, 1e-12F, 0};
  std::vector<uint8_t> codes(v.size());
  EXPECT_EQ(quantize_divisor(3, v.data(), codes.data()), 1);
  EXPECT_EQ(codes, (std::vector<uint8_t>{255, 1, 0}));
}

}  // namespace
}  // namespace snug::ops

#include "kernels/cpu/typed_gemm.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/rng.h"
#include "kernels/cpu/gemm.h"
#include "kernels/float_kernels.h"

namespace snug::ops {
namespace {

// A matrix of any float type as stored, with a gap at the end of each row that must not be written.
struct Matrix {
  int64_t rows, columns, ld;
  Dtype dtype;
  std::vector<std::byte> bytes =
      std::vector<std::byte>(static_cast<size_t>(rows * ld) * static_cast<size_t>(size_of(dtype)));
  bool operator==(const Matrix&) const = default;

  void set(int64_t i, float value) {
    visit_float(dtype, [&](auto zero) {
      store(zero, value);
      std::memcpy(bytes.data() + static_cast<size_t>(i) * sizeof zero, &zero, sizeof zero);
    });
  }
  double at(int64_t row, int64_t column) const {
    const auto i = static_cast<size_t>(row * ld + column);
    return visit_float(dtype, [&](auto zero) {
      std::memcpy(&zero, bytes.data() + i * sizeof zero, sizeof zero);
      return static_cast<double>(zero);
    });
  }
};

Matrix noise(int64_t rows, int64_t columns, int64_t gap, Dtype dtype, uint64_t stream) {
  Matrix m{rows, columns, columns + gap, dtype};
  for (int64_t i = 0; i < m.rows * m.ld; ++i) {
    m.set(i, unit_float(philox(1, static_cast<uint64_t>(i), stream)[0]) - 0.5F);
  }
  return m;
}

struct GemmShape {
  int64_t m, n, k;
  bool transpose_a = false, transpose_b = false;
  int64_t gap = 0;  // at the end of the rows of every matrix
  bool bias = false, sum = false;
};

// The operands of a GEMM; C holds what it is added to.
struct Operands {
  Matrix a, b, c, bias;
};

Operands operands(const GemmShape& p, const GemmTypes& types) {
  return {noise(p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.gap, types.a, 1),
          noise(p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.gap, types.b, 2),
          noise(p.m, p.n, p.gap, types.c, 3), noise(1, p.n, 0, types.c, 4)};
}

Matrix multiply(const GemmShape& p, const GemmTypes& types, const Operands& in, int threads) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  Matrix c = in.c;
  std::vector<std::byte> scratch(static_cast<size_t>(gemm_scratch(p.m, p.n, p.k, types)));
  typed_gemm({.m = p.m,
              .n = p.n,
              .k = p.k,
              .types = types,
              .a = in.a.bytes.data(),
              .b = in.b.bytes.data(),
              .c = c.bytes.data(),
              .lda = in.a.ld,
              .ldb = in.b.ld,
              .ldc = c.ld,
              .transpose_a = p.transpose_a,
              .transpose_b = p.transpose_b,
              .bias = p.bias ? in.bias.bytes.data() : nullptr,
              .sum = p.sum ? c.bytes.data() : nullptr,
              .scratch = scratch.data()});
  omp_set_num_threads(before);
  return c;
}

double expected(const GemmShape& p, const Operands& in, int64_t i, int64_t j) {
  double sum = (p.bias ? in.bias.at(0, j) : 0) + (p.sum ? in.c.at(i, j) : 0);
  for (int64_t k = 0; k < p.k; ++k) {
    sum += (p.transpose_a ? in.a.at(k, i) : in.a.at(i, k)) *
           (p.transpose_b ? in.b.at(j, k) : in.b.at(k, j));
  }
  return sum;
}

constexpr Dtype f32 = Dtype::f32, bf16 = Dtype::bf16, f16 = Dtype::f16;
constexpr GemmTypes kTypes[] = {{bf16, bf16, bf16}, {f16, f16, f16},  {bf16, bf16, f32},
                                {f32, f16, f16},    {f16, f32, bf16}, {f32, f32, bf16},
                                {f32, f32, f32}};

double half_unit(Dtype dtype) {  // of the last place, relative
  return dtype == bf16 ? 0x1p-8 : dtype == f16 ? 0x1p-11 : 0;
}

class TypedGemmTest : public ::testing::TestWithParam<GemmShape> {};

// Within half a unit of the exact sum, whatever the number of blocks: rounded once.
TEST_P(TypedGemmTest, RoundsTheExactSumOnce) {
  const GemmShape& p = GetParam();
  for (const GemmTypes& types : kTypes) {
    const Operands in = operands(p, types);
    const Matrix c = multiply(p, types, in, 3);
    for (uint64_t probe = 0; probe < 100; ++probe) {
      const auto i = static_cast<int64_t>(mix(probe) % static_cast<uint64_t>(p.m));
      const auto j = static_cast<int64_t>(mix(probe + 1000) % static_cast<uint64_t>(p.n));
      const double want = expected(p, in, i, j);
      ASSERT_NEAR(
          c.at(i, j), want,
          1.001 * half_unit(types.c) * std::abs(want) + 2e-6 * std::sqrt(static_cast<double>(p.k)))
          << i << "," << j << " in " << name_of(types.c);
    }
  }
}

TEST_P(TypedGemmTest, BitsDoNotDependOnTheNumberOfThreads) {
  const GemmShape& p = GetParam();
  for (const GemmTypes& types : kTypes) {
    const Operands in = operands(p, types);
    const Matrix one = multiply(p, types, in, 1);
    for (const int threads : {2, 5}) {
      EXPECT_TRUE(multiply(p, types, in, threads) == one)
          << threads << " threads, " << name_of(types.a) << name_of(types.b) << name_of(types.c);
    }
  }
}

TEST_P(TypedGemmTest, LeavesTheGapsAlone) {
  const GemmShape& p = GetParam();
  for (const GemmTypes& types : kTypes) {
    const Operands in = operands(p, types);
    const Matrix c = multiply(p, types, in, 2);
    for (int64_t row = 0; row < p.m; ++row) {
      for (int64_t gap = p.n; gap < c.ld; ++gap) ASSERT_EQ(c.at(row, gap), in.c.at(row, gap));
    }
  }
}

// Odd shapes, every transpose, and more than one block in each direction.
INSTANTIATE_TEST_SUITE_P(Shapes, TypedGemmTest,
                         ::testing::Values(GemmShape{1, 1, 1},
                                           GemmShape{3, 5, 7, false, true, 0, true},
                                           GemmShape{33, 17, 65, true, false, 3, false, true},
                                           GemmShape{70, 31, 2100, false, true, 1, true, true},
                                           GemmShape{1100, 19, 40, true, true, 5, true},
                                           GemmShape{23, 2070, 35, false, false, 2, true, true},
                                           GemmShape{1031, 1027, 24, true, false, 0, false, true},
                                           GemmShape{130, 120, 1300, false, true, 0, true}));

TEST(TypedGemm, AllInF32IsThePlainGemm) {
  const GemmShape p{97, 1100, 203};
  const Operands in = operands(p, {});
  std::vector<float> c(static_cast<size_t>(p.m * p.n));
  gemm({.m = p.m,
        .n = p.n,
        .k = p.k,
        .a = reinterpret_cast<const float*>(in.a.bytes.data()),
        .b = reinterpret_cast<const float*>(in.b.bytes.data()),
        .c = c.data()});
  const Matrix typed = multiply(p, {}, in, 2);
  EXPECT_EQ(std::memcmp(typed.bytes.data(), c.data(), typed.bytes.size()), 0);
  EXPECT_EQ(gemm_scratch(p.m, p.n, p.k, {}), 0);
}

TEST(TypedGemm, ScratchIsBoundedAndMonotone) {
  EXPECT_EQ(gemm_scratch(1 << 20, 1 << 20, 1 << 20, {bf16, bf16, bf16}), 12 << 20);
  EXPECT_EQ(gemm_scratch(1 << 20, 1 << 20, 1 << 20, {f32, bf16, f32}), 4 << 20);
  int64_t before = 0;
  for (int64_t m = 1; m < 3000; m += 7) {
    const int64_t scratch = gemm_scratch(m, 300, 2000, {bf16, bf16, bf16});
    EXPECT_GE(scratch, before);
    before = scratch;
  }
}

}  // namespace
}  // namespace snug::ops

#include "kernels/cpu/gemm.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <vector>

#include "base/rng.h"

namespace snug::ops {
namespace {

std::vector<float> noise(int64_t n, uint64_t stream) {
  std::vector<float> out(static_cast<size_t>(n));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = unit_float(philox(1, i, stream)[0]) - 0.5F;
  }
  return out;
}

struct GemmShape {
  int64_t m, n, k;
  bool transpose_a, transpose_b;
};

std::vector<float> multiply(const GemmShape& p, const std::vector<float>& a,
                            const std::vector<float>& b, int threads) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  std::vector<float> c(static_cast<size_t>(p.m * p.n), 0.25F);
  gemm({.m = p.m,
        .n = p.n,
        .k = p.k,
        .a = a.data(),
        .b = b.data(),
        .c = c.data(),
        .transpose_a = p.transpose_a,
        .transpose_b = p.transpose_b,
        .accumulate = true});
  omp_set_num_threads(before);
  return c;
}

class Blas : public ::testing::TestWithParam<GemmShape> {};

// Below, around and above the size at which a GEMM is cut, in shapes that cut unevenly.
TEST_P(Blas, BitsDoNotDependOnTheNumberOfThreads) {
  const GemmShape& p = GetParam();
  const std::vector<float> a = noise(p.m * p.k, 1);
  const std::vector<float> b = noise(p.k * p.n, 2);
  const std::vector<float> one = multiply(p, a, b, 1);
  for (const int threads : {2, 3, 5, 7, 16}) {
    EXPECT_EQ(multiply(p, a, b, threads), one) << threads << " threads";
  }
}

TEST_P(Blas, AgreesWithPlainSums) {
  const GemmShape& p = GetParam();
  const std::vector<float> a = noise(p.m * p.k, 1);
  const std::vector<float> b = noise(p.k * p.n, 2);
  const std::vector<float> c = multiply(p, a, b, 3);
  for (int64_t probe = 0; probe < 200; ++probe) {
    const auto i =
        static_cast<int64_t>(mix(static_cast<uint64_t>(probe)) % static_cast<uint64_t>(p.m));
    const auto j =
        static_cast<int64_t>(mix(static_cast<uint64_t>(probe) + 1000) % static_cast<uint64_t>(p.n));
    double sum = 0.25;
    for (int64_t k = 0; k < p.k; ++k) {
      const int64_t in_a = p.transpose_a ? k * p.m + i : i * p.k + k;
      const int64_t in_b = p.transpose_b ? j * p.k + k : k * p.n + j;
      sum += static_cast<double>(a[static_cast<size_t>(in_a)]) *
             static_cast<double>(b[static_cast<size_t>(in_b)]);
    }
    EXPECT_NEAR(c[static_cast<size_t>(i * p.n + j)], sum,
                1e-5 * std::sqrt(static_cast<double>(p.k)));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Blas,
    ::testing::Values(GemmShape{70, 31, 692, false, true}, GemmShape{40, 768, 256, false, true},
                      GemmShape{40, 256, 704, false, false}, GemmShape{1408, 256, 40, true, false},
                      GemmShape{100, 512, 256, false, true}, GemmShape{257, 131, 300, false, false},
                      GemmShape{131, 257, 301, true, false}, GemmShape{64, 4096, 33, false, true},
                      GemmShape{1000, 90, 97, true, true}, GemmShape{600, 600, 100, false, true}));

}  // namespace
}  // namespace snug::ops

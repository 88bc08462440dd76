#include "ops/testing/tolerance.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cmath>

namespace snug {
namespace {

const std::vector<double> kWant(100, 1.0);

// One element in a hundred off by `error`.
std::vector<double> with_one_off(double error) {
  std::vector<double> got = kWant;
  got[7] += error;
  return got;
}

}  // namespace

TEST(Tolerance, NamesElementBeyondTolerance) {
  expect_close(with_one_off(0x1p-7), kWant, Backend::cpu, Dtype::bf16, "y");
  EXPECT_NONFATAL_FAILURE(expect_close(with_one_off(0x1p-6), kWant, Backend::cpu, Dtype::bf16, "y"),
                          "1 of 100 elements are off, by up to 2 tolerances");
  EXPECT_NONFATAL_FAILURE(
      expect_close(with_one_off(std::nan("")), kWant, Backend::cpu, Dtype::bf16, "y"), "y[7]");
}

TEST(Tolerance, RmsBoundIsTighterThanElementBound) {
  constexpr double kError = 0x1p-5;
  expect_close_overall(with_one_off(kError), kWant, Backend::cuda, Dtype::bf16, "y");
  const std::vector<double> all(kWant.size(), 1 + kError);
  EXPECT_NONFATAL_FAILURE(expect_close_overall(all, kWant, Backend::cuda, Dtype::bf16, "y"), "rms");
  EXPECT_NONFATAL_FAILURE(
      expect_close_overall(with_one_off(std::nan("")), kWant, Backend::cuda, Dtype::bf16, "y"),
      "rms");
}

}  // namespace snug

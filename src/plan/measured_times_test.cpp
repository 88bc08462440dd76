#include "plan/measured_times.h"

#include <gtest/gtest.h>

#include <cmath>

namespace snug {
namespace {

constexpr double kLaunch = 2e-6;
constexpr double kCopy = 4e12;

OpSample sample(const char* kind, double flops, double bytes, double seconds,
                Dtype dtype = Dtype::bf16) {
  return {kind, dtype, false, flops, bytes, seconds};
}

// A streaming kernel: a launch, then 80 % of a copy.
double streaming_seconds(double bytes) { return 3e-6 + bytes / (0.8 * kCopy); }

Calibration streaming() {
  Calibration c{"NVIDIA H200", 0, "", "2026-11-15", kCopy, {}};
  for (double bytes = 1 << 16; bytes < 4e9; bytes *= 4)
    c.samples.push_back(sample("norm", bytes, bytes, streaming_seconds(bytes)));
  return c;
}

MeasuredTimes times_of(const Calibration& c) { return {c, find_device("h200"), kLaunch}; }

double norm_seconds(const MeasuredTimes& times, double bytes, Dtype dtype = Dtype::bf16) {
  return times.seconds("norm", dtype, {}, bytes, bytes).value();
}

TEST(MeasuredTimes, AreExactAtASample) {
  const Calibration c = streaming();
  const MeasuredTimes times = times_of(c);
  for (const OpSample& s : c.samples)
    EXPECT_NEAR(norm_seconds(times, s.bytes), s.seconds, 1e-9 * s.seconds) << s.bytes;
}

TEST(MeasuredTimes, AreRightBetweenSamples) {
  const MeasuredTimes times = times_of(streaming());
  for (double bytes = 7e4; bytes < 2e9; bytes *= 1.37)
    EXPECT_NEAR(norm_seconds(times, bytes) / streaming_seconds(bytes), 1, 0.07) << bytes;
}

TEST(MeasuredTimes, GrowWithTheWorkAndKeepTheirEfficiencyOutside) {
  const MeasuredTimes times = times_of(streaming());
  double last = 0;
  for (double bytes = 1; bytes < 1e13; bytes *= 4) {
    const double seconds = norm_seconds(times, bytes);
    EXPECT_GE(seconds, last) << bytes;
    EXPECT_GE(seconds, kLaunch) << bytes;
    last = seconds;
  }
  EXPECT_NEAR(norm_seconds(times, 2e13) / norm_seconds(times, 1e13), 2, 1e-6);
}

TEST(MeasuredTimes, TakeTheMeanOfTheSameWork) {
  Calibration c = streaming();
  c.samples = {sample("norm", 0, 1e9, 3e-4), sample("norm", 0, 1e9, 5e-4)};
  EXPECT_NEAR(times_of(c).seconds("norm", Dtype::bf16, {}, 0, 1e9).value(), 4e-4, 1e-12);
}

// Products: 500 TFLOP/s when large, half of it with a quarter of the bytes for each operation.
TEST(MeasuredTimes, TellShapesOfTheSameArithmeticApart) {
  Calibration c = streaming();
  for (const double flops : {1e11, 1e12}) {
    c.samples.push_back(sample("linear", flops, flops / 500, flops / 500e12));
    c.samples.push_back(sample("linear", flops, flops / 2000, flops / 250e12));
  }
  const MeasuredTimes times = times_of(c);
  const auto rate = [&](double flops, double bytes) {
    return flops / times.seconds("linear", Dtype::bf16, {}, flops, bytes).value();
  };
  EXPECT_NEAR(rate(3e11, 3e11 / 500), 500e12, 50e12);
  EXPECT_NEAR(rate(3e11, 3e11 / 2000), 250e12, 25e12);
  EXPECT_GT(rate(3e11, 3e11 / 1000), 260e12);
  EXPECT_LT(rate(3e11, 3e11 / 1000), 490e12);
}

TEST(MeasuredTimes, GoThroughTheRoofForAnotherDtype) {
  Calibration c = streaming();
  c.samples.push_back(sample("linear", 1e12, 1e8, 2e-3));                 // 500 TFLOP/s
  c.samples.push_back(sample("attention", 1e12, 1e8, 4e-3));              // 250 TFLOP/s
  c.samples.push_back(sample("attention", 1e12, 2e8, 4e-2, Dtype::f32));  // 25 TFLOP/s
  const MeasuredTimes times = times_of(c);
  const double seconds = times.seconds("linear", Dtype::f32, {}, 1e12, 2e8).value();
  EXPECT_NEAR(1e12 / seconds, 25e12, 1e12) << "as efficient as in bf16, of the peak in fp32";
  EXPECT_NEAR(norm_seconds(times, 1e8, Dtype::f16), norm_seconds(times, 1e8), 1e-12);
}

TEST(MeasuredTimes, OfAnUnknownKindGoByWhatIsBoundAlike) {
  Calibration c = streaming();
  c.samples.push_back(sample("linear", 1e12, 1e8, 2e-3));
  c.samples.push_back(sample("attention", 1e12, 1e8, 4e-3));
  const MeasuredTimes times = times_of(c);
  const double large = times.seconds("rope", Dtype::bf16, {}, 0, 3e9).value();
  EXPECT_NEAR(3e9 / large, 0.8 * kCopy, 0.4 * kCopy);
  const double product = times.seconds("conv", Dtype::bf16, {}, 1e12, 1e8).value();
  EXPECT_GE(product, 2e-3);
  EXPECT_LE(product, 4e-3);
  EXPECT_GE(times.seconds("rope", Dtype::bf16, {}, 0, 1).value(), kLaunch);
}

TEST(MeasuredTimes, KnowNothingWhereNothingIsBoundAlike) {
  EXPECT_FALSE(times_of(streaming()).seconds("linear", Dtype::bf16, {}, 1e12, 1e8).has_value());
}

TEST(MeasuredTimes, OfNoWorkAreALaunch) {
  Calibration c = streaming();
  c.samples.push_back(sample("advance", 0, 0, 1e-6));
  const MeasuredTimes times = times_of(c);
  EXPECT_EQ(times.seconds("other", Dtype::f32, {}, 0, 0), kLaunch);
  EXPECT_LE(times.seconds("advance", Dtype::bf16, {}, 0, 0).value(), 1e-6);
}

TEST(MeasuredRates, StandInForTheDataSheets) {
  Calibration c = streaming();
  c.samples.push_back(sample("linear", 1e12, 1e8, 2e-3));
  c.samples.push_back(sample("linear", 1e11, 1e7, 4e-4));
  const DeviceSpec rates = with_measured_rates(find_device("h200"), c);
  EXPECT_EQ(rates.bytes_per_s, kCopy);
  EXPECT_EQ(rates.bf16_flops, 500e12) << "the best of the products";
  EXPECT_EQ(rates.fp16_flops, find_device("h200").fp16_flops) << "not measured";
}

}  // namespace
}  // namespace snug

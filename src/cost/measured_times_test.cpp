#include "cost/measured_times.h"

#include <gtest/gtest.h>

#include <cmath>

namespace snug {
namespace {

constexpr double kLaunch = 2e-6;
constexpr double kCopy = 4e12;

OpWork work(const char* kind, double flops, double bytes, Dtype dtype = Dtype::bf16) {
  return {.kind = kind, .dtype = dtype, .flops = flops, .bytes = bytes};
}

OpSample sample(const char* kind, double flops, double bytes, double seconds,
                Dtype dtype = Dtype::bf16) {
  return {work(kind, flops, bytes, dtype), seconds};
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
  return times.seconds(work("norm", bytes, bytes, dtype)).value();
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

TEST(MeasuredTimes, GrowWithWorkAndExtrapolateEfficiency) {
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
  EXPECT_NEAR(times_of(c).seconds(work("norm", 0, 1e9)).value(), 4e-4, 1e-12);
}

// Matmuls: 500 TFLOP/s when large, half of it with a quarter of the bytes for each operation.
TEST(MeasuredTimes, DistinguishShapesOfEqualArithmetic) {
  Calibration c = streaming();
  for (const double flops : {1e11, 1e12}) {
    c.samples.push_back(sample("linear", flops, flops / 500, flops / 500e12));
    c.samples.push_back(sample("linear", flops, flops / 2000, flops / 250e12));
  }
  const MeasuredTimes times = times_of(c);
  const auto rate = [&](double flops, double bytes) {
    return flops / times.seconds(work("linear", flops, bytes)).value();
  };
  EXPECT_NEAR(rate(3e11, 3e11 / 500), 500e12, 50e12);
  EXPECT_NEAR(rate(3e11, 3e11 / 2000), 250e12, 25e12);
  EXPECT_GT(rate(3e11, 3e11 / 1000), 260e12);
  EXPECT_LT(rate(3e11, 3e11 / 1000), 490e12);
}

// Attention over narrower heads does more exponentials for the same matmuls; dropout is another
// kernel: neither speaks for the other while there is a sample of its own, however far.
TEST(MeasuredTimes, TellKernelsOfTheSameWorkApart) {
  Calibration c = streaming();
  OpSample wide = sample("attention", 1e12, 1e9, 3e-3), narrow = wide, dropped = wide;
  wide.exps = 1e12 / 512;
  narrow.exps = 1e12 / 256;
  narrow.seconds = 5e-3;
  dropped.exps = wide.exps;
  dropped.has = 4;
  dropped.seconds = 6e-2;
  c.samples.insert(c.samples.end(), {wide, narrow, dropped});
  const MeasuredTimes times = times_of(c);
  for (OpSample s : {wide, narrow, dropped}) {
    s.flops *= 3, s.bytes *= 3, s.exps *= 3;
    EXPECT_NEAR(times.seconds(s).value() / (3 * s.seconds), 1, 0.03);
  }
}

// Matmuls with odd rows are six times slower. Two of them speak for themselves, and for no
// other, however near.
TEST(MeasuredTimes, UseSameKernelWithEnoughSamples) {
  Calibration c = streaming();
  for (const double flops : {1e10, 1e11, 1e12}) {
    c.samples.push_back(sample("linear", flops, flops / 500, flops / 600e12));
    OpSample odd = sample("linear", 1.1 * flops, flops / 500, flops / 100e12);
    odd.has = kOdd;
    if (flops < 1e12) c.samples.push_back(odd);
  }
  const MeasuredTimes times = times_of(c);
  OpWork asked = work("linear", 1.09e11, 1e11 / 500);
  EXPECT_NEAR(asked.flops / times.seconds(asked).value(), 600e12, 10e12);
  asked.has = kOdd;
  asked.flops = 1e12;
  EXPECT_NEAR(asked.flops / times.seconds(asked).value(), 110e12, 10e12);
}

// Of three servers each has its own times; one that was not measured has none, and plain tiles go by
// fp32's peak in every type.
TEST(MeasuredTimes, OneServerDoesNotPredictAnother) {
  Calibration c = streaming();
  const OpSample cudnn = sample("attention", 1e12, 1e8, 4e-3);
  OpSample plain = sample("attention", 1e12, 1e8, 1e-1);
  plain.has = kPlainTiles;
  c.samples.insert(c.samples.end(), {cudnn, plain});
  const MeasuredTimes times = times_of(c);
  OpWork asked = work("attention", 2e12, 2e8);
  EXPECT_NEAR(times.seconds(asked).value(), 8e-3, 1e-4);
  asked.has = kPlainTiles;
  EXPECT_NEAR(times.seconds(asked).value(), 2e-1, 2e-3);
  asked.dtype = Dtype::f32;
  EXPECT_NEAR(times.seconds(asked).value(), 2e-1, 2e-3);
  asked.has = kOwnTensorCores;
  EXPECT_FALSE(times.seconds(asked).has_value());
  EXPECT_FALSE(times.seconds({.kind = "other", .has = kPlainTiles, .flops = 1e12}).has_value());
  EXPECT_EQ(with_measured_rates(find_device("h200"), c).bf16_flops, 250e12);
}

TEST(MeasuredTimes, UseRooflineForOtherDtype) {
  Calibration c = streaming();
  c.samples.push_back(sample("linear", 1e12, 1e8, 2e-3));                 // 500 TFLOP/s
  c.samples.push_back(sample("attention", 1e12, 1e8, 4e-3));              // 250 TFLOP/s
  c.samples.push_back(sample("attention", 1e12, 2e8, 4e-2, Dtype::f32));  // 25 TFLOP/s
  const MeasuredTimes times = times_of(c);
  const double seconds = times.seconds(work("linear", 1e12, 2e8, Dtype::f32)).value();
  EXPECT_NEAR(1e12 / seconds, 25e12, 1e12) << "as efficient as in bf16, of the peak in fp32";
  EXPECT_NEAR(norm_seconds(times, 1e8, Dtype::f16) / norm_seconds(times, 1e8), 1, 0.01);
}

TEST(MeasuredTimes, UnknownKindUsesSameBound) {
  Calibration c = streaming();
  c.samples.push_back(sample("linear", 1e12, 1e8, 2e-3));
  c.samples.push_back(sample("attention", 1e12, 1e8, 4e-3));
  const MeasuredTimes times = times_of(c);
  const double large = times.seconds(work("rope", 0, 3e9)).value();
  EXPECT_NEAR(3e9 / large, 0.8 * kCopy, 0.4 * kCopy);
  const double matmul = times.seconds(work("conv", 1e12, 1e8)).value();
  EXPECT_GE(matmul, 2e-3);
  EXPECT_LE(matmul, 4e-3);
  EXPECT_GE(times.seconds(work("rope", 0, 1)).value(), kLaunch);
}

TEST(MeasuredTimes, UnknownWithoutSameBound) {
  EXPECT_FALSE(times_of(streaming()).seconds(work("linear", 1e12, 1e8)).has_value());
}

TEST(MeasuredTimes, EmptyWorkIsALaunch) {
  Calibration c = streaming();
  c.samples.push_back(sample("advance", 0, 0, 1e-6));
  const MeasuredTimes times = times_of(c);
  EXPECT_EQ(times.seconds(work("other", 0, 0, Dtype::f32)), kLaunch);
  EXPECT_LE(times.seconds(work("advance", 0, 0)).value(), 1e-6);
}

TEST(MeasuredRates, ReplaceDataSheets) {
  Calibration c = streaming();
  c.samples.push_back(sample("linear", 1e12, 1e8, 2e-3));
  c.samples.push_back(sample("linear", 1e11, 1e7, 4e-4));
  const DeviceSpec rates = with_measured_rates(find_device("h200"), c);
  EXPECT_EQ(rates.bytes_per_s, kCopy);
  EXPECT_EQ(rates.bf16_flops, 500e12) << "the best of the matmuls";
  EXPECT_EQ(rates.fp16_flops, find_device("h200").fp16_flops) << "not measured";
}

}  // namespace
}  // namespace snug

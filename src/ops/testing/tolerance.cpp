#include "ops/testing/tolerance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "ops/testing/tensor_bytes.h"

namespace snug {
namespace {

struct Tolerance {
  Backend backend;
  Dtype dtype;
  double relative;
};
constexpr Tolerance kTolerances[] = {
    {Backend::cpu, Dtype::f64, 1e-12},
    {Backend::cpu, Dtype::f32, 5e-6},
    {Backend::cpu, Dtype::bf16, 0x1p-8},  // 8 significant bits, rounded
    {Backend::cpu, Dtype::f16, 0x1p-11},  // 11
    // Sums of squares over all gradients: a device adds f32 parts, each of a few thousand elements.
    {Backend::cuda, Dtype::f64, 1e-6},
    // The device's expf, rsqrtf and tanhf are allowed 2 units where the host's have half of one.
    {Backend::cuda, Dtype::f32, 1e-5},
    {Backend::cuda, Dtype::bf16, 0x1p-8},
    {Backend::cuda, Dtype::f16, 0x1p-11},
};

double tolerance(Backend backend, Dtype dtype) {
  for (const Tolerance& t : kTolerances) {
    if (t.backend == backend && t.dtype == dtype) return t.relative;
  }
  return 0;
}

// Integers: half a unit around what the reference gives, and a little for the arithmetic before the
// rounding. Where it gives whole numbers they must be equal; a code it may give as a fraction, and
// near a tie both neighbours are right.
constexpr double kIntegerTolerance = 0.51;

}  // namespace

double rms_of(const std::vector<double>& v) {
  double square = 0;
#pragma omp parallel for reduction(+ : square) if (v.size() > kSeveralThreads)
  for (double x : v) square += x * x;
  return std::sqrt(square / std::max<double>(1, static_cast<double>(v.size())));
}

void expect_close(const std::vector<double>& got, const std::vector<double>& want, Backend backend,
                  Dtype dtype, const std::string& what, double factor) {
  const double relative = factor * tolerance(backend, dtype);
  const double rms = rms_of(want);
  const auto allowed = [&](size_t i) {
    return is_float(dtype) ? relative * (std::abs(want[i]) + rms) : factor * kIntegerTolerance;
  };
  size_t first = want.size(), off = 0;
  double worst = 0;  // in tolerances; NaN is off but has no size
#pragma omp parallel for reduction(min : first) reduction(+ : off) \
    reduction(max : worst) if (want.size() > kSeveralThreads)
  for (size_t i = 0; i < want.size(); ++i) {
    const double error = std::abs(got[i] - want[i]);
    if (error <= allowed(i)) continue;
    first = std::min(first, i);
    worst = std::max(worst, error / allowed(i));
    ++off;
  }
  if (off == 0) return;
  ADD_FAILURE() << what << "[" << first << "] is " << got[first] << ", want " << want[first]
                << " (rms " << rms << ", tolerance " << allowed(first) << "); " << off << " of "
                << want.size() << " elements are off, by up to " << worst << " tolerances";
}

void expect_close_overall(const std::vector<double>& got, const std::vector<double>& want,
                          Backend backend, Dtype dtype, const std::string& what, double factor) {
  std::vector<double> errors(want.size());
  std::ranges::transform(got, want, errors.begin(), std::minus<>());
  const double error = rms_of(errors), allowed = factor * tolerance(backend, dtype) * rms_of(want);
  EXPECT_LE(error, allowed) << "the rms of what " << what << " is off by";
}

}  // namespace snug

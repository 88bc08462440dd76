#include "ops/rotary/rope_frequency.h"

#include <cmath>
#include <numbers>

namespace snug::ops {
namespace {

// Llama 3.1: wavelengths that the original context held many times stay, those it never completed
// turn `factor` times slower, and those between are blended linearly in turns per context.
double llama3(double frequency, const Attrs& attrs) {
  const double turns =
      static_cast<double>(attrs.i("original_positions")) * frequency / (2 * std::numbers::pi);
  const double low = attrs.f("low_freq_factor");
  const double high = attrs.f("high_freq_factor");
  const double slow = frequency / attrs.f("factor");
  if (turns < low) return slow;
  if (turns > high) return frequency;
  const double blend = (turns - low) / (high - low);
  return (1 - blend) * slow + blend * frequency;
}

}  // namespace

int64_t rotary_dim(const Attrs& attrs) { return attrs.i("rotary_dim", attrs.i("head_dim")); }

double rope_frequency(int64_t i, const Attrs& attrs) {
  const auto R = static_cast<double>(rotary_dim(attrs));
  const double frequency = std::pow(attrs.f("theta"), -2 * static_cast<double>(i) / R);
  if (!attrs.has("scaling")) return frequency;
  return attrs.s("scaling") == "linear" ? frequency / attrs.f("factor") : llama3(frequency, attrs);
}

}  // namespace snug::ops

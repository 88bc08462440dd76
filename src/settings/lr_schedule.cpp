#include "settings/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace snug {
namespace {

// How much of the way from `begin` to `end` is done at `step`: 0 before, 1 after.
double progress(double step, double begin, double end) {
  if (step <= begin) return 0;
  return step >= end ? 1 : (step - begin) / (end - begin);
}

// The part of the way from the lowest rate to the peak that the schedule is at.
double height(const LrSchedule& s, int64_t step) {
  const auto at = static_cast<double>(step);
  const auto begin = static_cast<double>(s.warmup_steps);
  const auto end = static_cast<double>(s.total_steps);
  switch (s.kind) {
    case LrSchedule::Kind::constant:
      return 1;
    case LrSchedule::Kind::cosine:
      return (1 + std::cos(std::numbers::pi * progress(at, begin, end))) / 2;
    case LrSchedule::Kind::linear:
      return 1 - progress(at, begin, end);
    case LrSchedule::Kind::wsd: {
      const double decay_begin = std::max(begin, end * (1 - s.decay_fraction));
      return 1 - std::sqrt(progress(at, decay_begin, end));
    }
  }
  throw internal_error("no such schedule: {}", static_cast<int>(s.kind));
}

}  // namespace

void check(const LrSchedule& s) {
  const auto is_part = [](double x) { return x >= 0 && x <= 1; };  // false for nan
  if (!std::isfinite(s.peak) || s.peak < 0)
    throw usage_error("a learning rate of {} makes no sense", s.peak);
  if (!is_part(s.min_ratio))
    throw usage_error("the lowest learning rate is {} of the peak; it must be from 0 to 1",
                      s.min_ratio);
  if (!is_part(s.decay_fraction))
    throw usage_error("the decay takes {} of the steps; it must be from 0 to 1", s.decay_fraction);
  if (s.warmup_steps < 0) throw usage_error("{} warm-up steps make no sense", s.warmup_steps);
  if (s.total_steps < 0) throw usage_error("{} steps make no sense", s.total_steps);
}

double learning_rate(const LrSchedule& s, int64_t step) {
  if (step < s.warmup_steps) {
    return s.peak * static_cast<double>(step + 1) / static_cast<double>(s.warmup_steps);
  }
  return s.peak * (s.min_ratio + (1 - s.min_ratio) * height(s, step));
}

}  // namespace snug

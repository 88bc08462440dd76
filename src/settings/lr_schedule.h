// The learning rate of each optimizer step: a pure function, so resuming needs only the step.
//
//   LrSchedule s{.peak = 3e-4, .min_ratio = 0.1, .warmup_steps = 100, .total_steps = 1000};
//   learning_rate(s, 0) == 3e-6;   learning_rate(s, 100) == 3e-4;   learning_rate(s, 1000) == 3e-5
#pragma once

#include <cstdint>

#include "settings/setting_text.h"

namespace snug {

struct LrSchedule {
  // constant: peak. cosine, linear: from the peak to the lowest rate at total_steps. wsd (warm-up,
  // stable, decay): the peak, then down by 1 - sqrt over the last decay_fraction of the steps.
  enum class Kind : uint8_t { constant, cosine, linear, wsd } kind = Kind::cosine;
  double peak = 3e-4;
  double min_ratio = 0;      // the lowest rate, as a part of the peak
  int64_t warmup_steps = 0;  // step s < warmup_steps has (s + 1) / warmup_steps of the peak
  int64_t total_steps = 0;
  double decay_fraction = 0.2;  // wsd
};

template <>
inline constexpr auto kWords<LrSchedule::Kind> =
    std::to_array<Word<LrSchedule::Kind>>({{"constant", LrSchedule::Kind::constant},
                                           {"cosine", LrSchedule::Kind::cosine},
                                           {"linear", LrSchedule::Kind::linear},
                                           {"wsd", LrSchedule::Kind::wsd}});

// Throws a usage error naming the number that makes no sense.
void check(const LrSchedule& schedule);

// The rate of optimizer step `step`, counted from 0. Steps beyond the total stay at the lowest
// rate.
double learning_rate(const LrSchedule& schedule, int64_t step);

}  // namespace snug

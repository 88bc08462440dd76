// What was predicted of a run beside what was measured in it.
//
//   Truth truth{.prices = run.prices.origin(), ...};
//   truth.kinds = kinds_of_step(executor, run.prices);   // after everything that values matter for
//   fmt::print("{}", table_of(truth));
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/cost_model.h"
#include "runtime/executor.h"

namespace snug {

// The ops of one kind in a step.
struct KindTruth {
  std::string kind;
  int64_t calls = 0;
  double predicted_ms = 0, measured_ms = 0;
};

struct Truth {
  std::string prices;                         // what the prediction rests on
  double predicted_ms = 0, measured_ms = 0;   // a step
  int64_t planned_bytes = 0, peak_bytes = 0;  // in the arena
  // With the context: all that a GPU's memory shows. 0 elsewhere.
  int64_t planned_device_bytes = 0, device_bytes = 0;
  std::vector<KindTruth> kinds;  // those that are furthest off, in milliseconds, first
};

// Of predicted to measured: 0.1 is a tenth too much.
double error_of(double predicted, double measured);
// The middle of the steps behind the first two, which warm up; of all where there are no others.
double typical_step_ms(std::vector<double> seconds);

// Times every op of a step in its place. Values are good for nothing afterwards.
std::vector<KindTruth> kinds_of_step(Executor& executor, const CostModel& prices);

std::string line_of(const Truth& truth);   // a step alone
std::string table_of(const Truth& truth);  // for people
std::string json_of(const Truth& truth);   // one line

}  // namespace snug

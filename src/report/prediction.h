// What was predicted of a run and what was measured in it.
//
//   Prediction prediction{.times_from = run.cost_model.origin(), ...};
//   prediction.kinds = kinds_of_step(executor, run.cost_model);   // after everything that values
//   matter for fmt::print("{}", table_of(prediction));
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace snug {

// The ops of one kind in a step.
struct KindPrediction {
  std::string kind;
  int64_t calls = 0;
  double predicted_ms = 0, measured_ms = 0;
};

struct Prediction {
  std::string times_from;                     // what the prediction rests on
  double predicted_ms = 0, measured_ms = 0;   // a step
  int64_t planned_bytes = 0, peak_bytes = 0;  // in the arena
  // With the context: all that a GPU's memory shows. 0 on a CPU.
  int64_t planned_device_bytes = 0, device_bytes = 0;
  std::vector<KindPrediction> kinds;  // those that are furthest off, in milliseconds, first
};

// Of predicted to measured: 0.1 is a tenth too much.
double error_of(double predicted, double measured);
// The median of the steps after the first two, which warm up; of all where there are no others.
double typical_step_ms(std::vector<double> seconds);

std::string line_of(const Prediction& prediction);   // a step alone
std::string table_of(const Prediction& prediction);  // for people
std::string json_of(const Prediction& prediction);   // one line

}  // namespace snug

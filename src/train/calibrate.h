// From timed programs to samples: one for every distinct piece of work.
#pragma once

#include <map>
#include <vector>

#include "ir/op_def.h"
#include "plan/calibration.h"
#include "snug/calibrate.h"

namespace snug {

class SampleSet {
 public:
  explicit SampleSet(Backend backend) : backend_(backend) {}

  // Times of a program's ops, one per op.
  void add(const Module& module, const Program& program, const Math& math,
           const std::vector<double>& ms);
  // The median of those of the same work.
  std::vector<OpSample> samples() const;

 private:
  Backend backend_;
  std::map<OpWork, std::vector<double>> seconds_;
};

// What was reached by kind and type.
std::vector<KindRates> rates_of(const std::vector<OpSample>& samples);

}  // namespace snug

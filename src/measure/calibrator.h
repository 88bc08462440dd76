// Calibration of a device: timed programs become samples, one for every distinct piece of work.
#pragma once

#include <map>
#include <vector>

#include "cost/calibration.h"
#include "ir/op_def.h"
#include "snug/calibrate.h"

namespace snug {

// A GPU whose program is mostly matmuls runs them at its power limit; one that spends most of its
// time otherwise (attention with dropout) has power to spare, and runs the same matmuls up to 20 %
// faster. Such a program's time of a matmul counts only where others hardly ran its kernel.
class SampleSet {
 public:
  explicit SampleSet(Backend backend) : backend_(backend) {}

  // Times of a program's ops, one per op.
  void add(const Module& module, const Program& program, const Math& math,
           const std::vector<double>& ms);
  // The median of those of the same work.
  std::vector<OpSample> samples() const;

 private:
  using Seconds = std::map<OpWork, std::vector<double>>;

  Backend backend_;
  Seconds seconds_;
  Seconds with_power_to_spare_;  // of matmuls
};

// Rates reached, by kind and type.
std::vector<KindRates> rates_of(const std::vector<OpSample>& samples);

// Times the device and keeps what was found. Throws a usage error where there is nowhere to keep
// it, and a device error where nothing can be measured.
CalibrateReport calibrate_device(const CalibrateOptions& options,
                                 const CalibrateObserver& observer);

}  // namespace snug

// What ops took where they were measured, and between those points.
//
// An op takes a launch and, beyond it, its roof over the efficiency that its kind reaches at that
// size. Efficiencies are interpolated over the logarithms of flops and bytes: exact at a sample,
// flat outside.
//
//   MeasuredTimes times(calibration, spec, 2e-6);
//   times.seconds({.kind = "linear", .dtype = Dtype::bf16, .flops = 7e10, .bytes = 1e8});
//   // nothing: no such work was measured
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost/calibration.h"
#include "cost/device_catalogue.h"

namespace snug {

// A data sheet's figures, with those in their place that were measured.
DeviceSpec with_measured_rates(const DeviceSpec& spec, const Calibration& measured);

class MeasuredTimes {
 public:
  // `launch`: what starting any op may take; less where a kind was seen to take less.
  MeasuredTimes(const Calibration& measured, const DeviceSpec& spec, double launch);

  // A kind that was not measured in this dtype goes by its own efficiency in another one; a kind
  // that was never measured, by the middle of others of its size with the same bound. Nothing for
  // kernels of our own (kServers) that were not measured: those of others say nothing of them.
  std::optional<double> seconds(const OpWork& work) const;

 private:
  struct Point {
    double x = 0, y = 0;  // size, and operations for each byte; logarithms
    double apart = 0;     // operations for each exponential: tells apart, says nothing of the slope
    uint32_t has = 0;     // another kernel: likewise
    double z = 0;         // log efficiency
  };
  // One kind in one dtype.
  struct Surface {
    Dtype dtype = Dtype::f32;
    bool tf32 = false;
    double launch = 0;
    std::vector<Point> points;
    double at(const Point& q) const;  // log efficiency
  };
  using Kinds = std::map<std::string, std::vector<Surface>, std::less<>>;

  static Point place_of(const OpWork& work);
  Surface surface_of(const std::vector<OpSample>& samples, double launch) const;
  const Surface* nearest_surface(const OpWork& work) const;
  std::optional<double> usual_efficiency(const Roof& roof) const;

  DeviceSpec rates_;
  double launch_ = 0;
  Kinds kinds_;
  // log roof and efficiency of every sample: bound by traffic, bound by arithmetic
  std::vector<std::pair<double, double>> pools_[2];
};

}  // namespace snug

#include "plan/cost_model.h"

#include <algorithm>
#include <utility>

namespace snug {
namespace {

// What large ops reach of a device's peaks where nothing was measured.
constexpr double kArithmetic = 0.65;
constexpr double kTraffic = 0.8;

}  // namespace

CostModel::CostModel(DeviceSpec spec, Math math, std::optional<Calibration> measured)
    : spec_(std::move(spec)), math_(math), measured_(std::move(measured)) {}

double CostModel::seconds(const Module& module, const Op& op) const {
  const Cost cost = cost_of(module, op, spec_.backend);
  const Dtype dtype = kernel_dtype(module, op);
  const auto flops = static_cast<double>(cost.flops);
  const double bytes =
      static_cast<double>(cost.bytes_read) + static_cast<double>(cost.bytes_written);
  return std::max(flops / (kArithmetic * spec_.peak_flops(dtype, math_)),
                  bytes / (kTraffic * spec_.bytes_per_s));
}

std::string CostModel::origin() const {
  return measured_ ? fmt::format("measured on {}, {}", measured_->device, measured_->date)
                   : fmt::format("catalogue figures of {}", spec_.title);
}

CostModel nominal_model(Backend backend) {
  return {backend == Backend::cuda ? find_device("h200") : this_cpu(8), {}};
}

}  // namespace snug

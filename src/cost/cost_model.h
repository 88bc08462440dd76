// What an op costs on a device: as long as its arithmetic or its traffic would take at the device's
// peak, whichever is longer, by the efficiency that such ops reach there, and never less than a
// launch.
//
//   CostModel model(find_device("h200"), {});                        // by the data sheet
//   CostModel model(spec, {}, read_calibration(path, "NVIDIA H200"));   // by measurement
//   model.seconds(module, op);   step_cost(module, model).step_seconds;
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cost/calibration.h"
#include "cost/device_catalogue.h"
#include "ir/op_def.h"
#include "ir/program.h"

namespace snug {

class CostModel {
 public:
  CostModel(DeviceSpec spec, Math math, std::optional<Calibration> measured = {});

  // May be called from several threads. Copies share their cache.
  double seconds(const Module& module, const Op& op) const;

  // How many times longer attention takes on plain tiles than in bf16 on tensor cores, about.
  double plain_tiles_take_times() const;

  Backend backend() const { return spec_.backend; }
  const DeviceSpec& spec() const { return spec_; }
  const Math& math() const { return math_; }
  bool measured() const { return measured_ != nullptr; }
  // "measurements on NVIDIA H200, 2026-11-15", "catalogue figures of NVIDIA H200"
  std::string origin() const;

 private:
  struct Measured;

  DeviceSpec spec_;
  Math math_;
  std::shared_ptr<Measured> measured_;
};

// Where no device was named: a data-centre GPU, or a processor with eight threads.
CostModel nominal_model(Backend backend);

}  // namespace snug

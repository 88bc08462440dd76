// What an op costs on a device: as long as its arithmetic or its traffic would take at the device's
// peak, whichever is longer, by the efficiency that such ops reach there, and never less than a
// launch. What moves bytes between spaces takes a latency, and its bytes over the rate of the link.
//
//   CostModel model(find_device("h200"), {});                        // by the data sheet
//   CostModel model(spec, {}, read_calibration(path, "NVIDIA H200"));   // by measurement
//   model.seconds(module, program);   step_cost(module, model).step_seconds;
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost/calibration.h"
#include "cost/device_catalogue.h"
#include "cost/lane_simulation.h"
#include "cost/wire_times.h"
#include "ir/op_def.h"
#include "ir/program.h"

namespace snug {

// Around a device: the memories that its bytes move to, and what computes there. Measured where a
// calibration says so, else the catalogue's link and a plain machine.
struct Surroundings {
  Link link;
  DeviceSpec cpu = this_cpu(8);
  DiskRates disk = {};
};

class CostModel {
 public:
  CostModel(DeviceSpec spec, Math math, std::optional<Calibration> measured = {});

  // May be called from several threads. Copies share their cache. A move has the link to itself.
  double seconds(const Module& module, const Op& op) const {
    return seconds(module, op, /*both_ways=*/false);
  }
  // Of each op, with what runs on other lanes: they may share a rank's cores.
  std::vector<double> seconds(const Module& module, const Program& program) const;
  // Of each op, on cores of its own. Where one lane moves bytes to the device and another away from
  // it, both share the link.
  std::vector<double> seconds_alone(const Module& module, const Program& program) const;

  // How many times longer attention takes on plain tiles than in bf16 on tensor cores, about.
  double plain_tiles_take_times() const;

  Backend backend() const { return spec_.backend; }
  const DeviceSpec& spec() const { return spec_; }
  const Math& math() const { return math_; }
  const Surroundings& surroundings() const { return surroundings_; }
  bool measured() const { return measured_ != nullptr; }
  // "measurements on NVIDIA H200, 2026-11-15", "catalogue figures of NVIDIA H200"
  std::string origin() const;
  // The same for moves and for ops on the host, of those spaces that the module uses: "link 55 GB/s
  // one way and 49 both ways by the catalogue; host memory 80 GB/s, assumed". Empty: it uses none.
  std::string origin_of_moves(const Module& module) const;

  // Collectives over as many ranks as one of these take its time, others the catalogue's.
  void use_wires(std::vector<WireTimes> measured) { wires_ = std::move(measured); }
  // The cores of one rank, where ranks on one machine share them; none: there are enough.
  void share_cores(const CoreShare& of_a_rank) { cores_ = of_a_rank; }
  const std::optional<CoreShare>& cores() const { return cores_; }

 private:
  struct Measured;

  double seconds(const Module& module, const Op& op, bool both_ways) const;
  std::optional<double> move_seconds(const Move& move, bool both_ways) const;
  double wire_seconds(const Module& module, const Op& op) const;
  const WireTimes* measured_wire(int64_t ranks) const;  // nullptr: there is none

  DeviceSpec spec_;
  Math math_;
  Surroundings surroundings_;
  bool measured_link_ = false, measured_host_ = false, measured_disk_ = false;
  std::shared_ptr<Measured> measured_;
  std::vector<WireTimes> wires_;
  std::optional<CoreShare> cores_;
};

// Where no device was named: a data-centre GPU, or a processor with eight threads.
CostModel nominal_model(Backend backend);

}  // namespace snug

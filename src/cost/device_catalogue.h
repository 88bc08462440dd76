// The catalogue of devices: what a data sheet says, so that a plan needs no device.
//
//   const DeviceSpec& gpu = find_device("rtx4090");   // or "RTX 4090", "NVIDIA GeForce RTX 4090"
//   find_device("g5.xlarge").name;                    // "a10g": what a cloud's machine has
//   match_device("NVIDIA A100-PCIE-40GB")->name;      // "a100-40"
//   find_device("h100x8");   devices_in("h100x8");    // "h100", and 8 of them
//   gpu.memory_bytes;   gpu.peak_flops(Dtype::bf16, {});
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/op_def.h"

namespace snug {

// How long work takes at a device's peaks: no op is faster, but for what is in a cache already.
struct Roof {
  double arithmetic = 0, traffic = 0;  // seconds
  // The longer hides the shorter, but for a part: where an op is cut into chunks, each reads its
  // weight again, and that is not free.
  double seconds() const {
    constexpr double kShows = 0.25;
    return std::max(arithmetic, traffic) + kShows * std::min(arithmetic, traffic);
  }
  bool by_arithmetic() const { return arithmetic > traffic; }
};

// How fast pinned copies go between a device and its host, in bytes per second.
struct Link {
  double in = 0, out = 0;  // to the device and from it, one way at a time
  double both = 0;         // each way, while both run
  friend bool operator==(const Link&, const Link&) = default;
};

// How fast a rank sends to other ranks while it receives as much, in bytes per second: to those of
// its machine, and from there to other machines.
struct Wire {
  double within = 0, between = 0;
  int64_t machine = 8;  // ranks of one

  // Of a collective over so many ranks, `stride` of the job's from one to the next. Between machines
  // all their ranks send at once, those of other such collectives too.
  double rate(int64_t ranks, int64_t stride = 1) const {
    if ((ranks - 1) * stride < machine) return within;
    const int64_t per_machine = std::max<int64_t>(1, machine / stride);
    return std::min(within, between * static_cast<double>(per_machine));
  }
  // Of an exchange from each to each: what goes to other machines takes a rank's own card.
  double exchange_rate(int64_t ranks) const {
    if (ranks <= machine) return within;
    return std::min(within,
                    between * static_cast<double>(ranks) / static_cast<double>(ranks - machine));
  }
  friend bool operator==(const Wire&, const Wire&) = default;
};

// How fast large transfers of a disk go, in bytes per second. What one NVMe drive of any kind gives,
// where it was not measured.
struct DiskRates {
  static constexpr double kLatency = 1e-4;  // seconds, before a transfer's first byte
  double read = 2e9, write = 2e9;
  friend bool operator==(const DiskRates&, const DiskRates&) = default;
};

struct DeviceSpec {
  std::string name;   // as --gpu says it: "h200"
  std::string title;  // as its driver says it: "NVIDIA H200"
  Backend backend = Backend::cuda;
  int capability = 0;        // compute capability: 89 for 8.9; 0: not a GPU
  int64_t memory_bytes = 0;  // as nvidia-smi reports it; 0: the machine's own memory
  // Dense operations per second; 0: it has no such arithmetic.
  double fp32_flops = 0, tf32_flops = 0, bf16_flops = 0, fp16_flops = 0;
  double bytes_per_s = 0;  // of its memory
  Link link = {};          // to the host; all 0 where the host's memory is its own
  Wire wire = {};          // to other ranks

  // Of its memory, what programs are sure to get: the driver keeps some back.
  int64_t usable_bytes() const;
  double peak_flops(Dtype dtype, const Math& math) const;
  Roof roof(Dtype dtype, const Math& math, double flops, double bytes) const {
    return {flops / peak_flops(dtype, math), bytes / bytes_per_s};
  }
};

std::span<const DeviceSpec> device_catalogue();
// The processor this runs on: nominal figures for its threads.
DeviceSpec this_cpu(int64_t threads);

// The entry that a driver's name belongs to, whatever the case, spaces and dashes. Every word of the
// name must be the entry's: a laptop's, a Ti or a part of a GPU (MIG) is never taken for the larger
// one. Where cards of one name differ in memory, that of the nearest size, or the smallest. nullptr
// when the catalogue has none.
const DeviceSpec* match_device(std::string_view title, int64_t memory_bytes = 0);
// The same for what a user says, clouds' machines too ("p4d.24xlarge", "a3-highgpu-8g"): the one GPU
// in them. Throws a usage error with the nearest names; a name that several sizes have is refused.
const DeviceSpec& find_device(std::string_view name);
// How many of them a user says: "h100x8"; one where no number follows.
int64_t devices_in(std::string_view name);
// What clouds call machines with this GPU: "g6", "g2-standard".
std::vector<std::string_view> cloud_names(const DeviceSpec& spec);

}  // namespace snug

// What `snug calibrate` measured on one device: ops with their work and their time. A file belongs
// to one device and one version of the format; what is wrong with one is told, and it is ignored.
//
//   write_calibration(calibration_path("NVIDIA H200", 0), measured);
//   CostModel model(spec, {}, read_calibration(calibration_path("NVIDIA H200", 0), "NVIDIA H200"));
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost/op_work.h"

namespace snug {

// One op, timed in its place in a step. The samples of a program add up to what the
// program took when it was replayed.
struct OpSample : OpWork {
  double seconds = 0;
  friend bool operator==(const OpSample&, const OpSample&) = default;
};

struct Calibration {
  std::string device;    // "NVIDIA H200", or the processor's name
  int64_t threads = 0;   // of a CPU; 0 on a GPU
  std::string versions;  // driver and libraries, for the reader: "driver 13.0, cuBLASLt 13.1"
  std::string date;      // "2026-11-15"
  double copy_bytes_per_s = 0;  // a large copy, bytes read and written
  std::vector<OpSample> samples;
  std::optional<Link> link = {};       // of a GPU; none: not measured
  std::optional<DiskRates> disk = {};  // of --offload-dir; none: not measured
  double host_bytes_per_s = 0;  // the same copy in the memory of a GPU's host; 0: not measured
  friend bool operator==(const Calibration&, const Calibration&) = default;
};

// ${XDG_CACHE_HOME:-$HOME/.cache}/snug/calibration-nvidia-h200.json, with -8-threads on a CPU;
// empty where neither is set.
std::filesystem::path calibration_path(std::string_view device, int64_t threads = 0);

// Nothing where there is no file. A file that is damaged, of another format, of another device or
// number of threads, or older than driver and libraries are (`versions`; empty: not known) is
// ignored with a word.
std::optional<Calibration> read_calibration(const std::filesystem::path& path,
                                            std::string_view device, int64_t threads = 0,
                                            std::string_view versions = "");

// Whole or not at all; makes the folder. Throws bad_input where it cannot be written.
void write_calibration(const std::filesystem::path& path, const Calibration& calibration);

}  // namespace snug

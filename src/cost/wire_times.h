// What collectives take between the ranks of a job, as `snug calibrate --ranks N` measured it: one file
// for a kind of device, with a line for every number of ranks.
//
//   keep_wire(wire_path("NVIDIA H200"), {.ranks = 4, .engine = "NCCL", .latency = 2e-5, .rate = 3e11});
//   read_wires(wire_path("NVIDIA H200"));
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace snug {

struct WireTimes {
  int64_t ranks = 0;
  std::string engine;  // "sockets"
  double latency = 0;  // seconds: a collective of a few bytes
  double rate = 0;     // bytes per second that a rank sends while it receives as many

  double seconds(double sent) const { return latency + sent / rate; }
  friend bool operator==(const WireTimes&, const WireTimes&) = default;
};

// ${XDG_CACHE_HOME:-$HOME/.cache}/snug/wire-nvidia-h200.json; empty where neither is set.
std::filesystem::path wire_path(std::string_view device);

// None where there is no file. One that is damaged is ignored with a word.
std::vector<WireTimes> read_wires(const std::filesystem::path& path);

// In the place of what was measured over as many ranks; makes the folder. Throws bad_input where it
// cannot be written.
void keep_wire(const std::filesystem::path& path, const WireTimes& measured);

}  // namespace snug

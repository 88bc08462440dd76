// What `snug calibrate` measured on one device: ops with their work and their time. A file belongs
// to one device and one version of the format.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ir/program.h"

namespace snug {

// One op that was timed where it stands in a step.
struct OpSample {
  std::string kind;
  Dtype dtype = Dtype::f32;
  bool tf32 = false;
  double flops = 0;
  double bytes = 0;  // read and written
  double seconds = 0;
};

struct Calibration {
  std::string device;   // "NVIDIA H200", or the processor's name
  int64_t threads = 0;  // of a CPU; 0 on a GPU
  std::string date;
  double copy_bytes_per_s = 0;
  std::vector<OpSample> samples;
  // A step takes scale x (the sum of its ops' times) + per_op x (how many they are): what timing
  // ops one by one does not see.
  double scale = 1;
  double per_op_seconds = 0;
};

}  // namespace snug

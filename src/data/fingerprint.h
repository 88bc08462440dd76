// Of the data that a run trains on: its length, and a checksum of samples of it, so that terabytes
// do not hold up a start.
#pragma once

#include <cstdint>
#include <string>

namespace snug {

struct DataFingerprint {
  int64_t tokens = 0;
  std::string checksum;
  friend bool operator==(const DataFingerprint&, const DataFingerprint&) = default;
};

}  // namespace snug

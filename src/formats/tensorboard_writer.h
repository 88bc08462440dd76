// A file of events that TensorBoard reads: records of protocol buffers, each with its checksums.
//
//   TensorboardWriter events("logs/mine");
//   events.scalars(step, {{"loss", 3.2}, {"lr", 1e-4}});
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace snug {

// CRC-32C (Castagnoli) of the bytes, as record files rotate and offset it.
uint32_t masked_crc32c(std::string_view bytes);

struct Scalar {
  std::string tag;
  double value = 0;
};

// One event with values, without the record around it. `wall_time`: seconds since 1970.
std::string scalar_event(double wall_time, int64_t step, std::span<const Scalar> scalars);
// A record of the file.
std::string tensorboard_record(std::string_view event);

class TensorboardWriter {
 public:
  // Makes the directory and a file of its own in it. Throws a usage error where that cannot be.
  explicit TensorboardWriter(const std::filesystem::path& directory);

  // Flushed when this returns. False where they could not be written.
  bool scalars(int64_t step, std::span<const Scalar> scalars);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace snug

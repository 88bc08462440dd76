#include "train/disk_pace.h"

#include <fmt/format.h>

namespace snug {
namespace {

constexpr double kTooSlow = 3;
constexpr double kEnoughSeconds = 1;  // to tell

bool is_slow(const DiskTraffic& t, double bytes_per_s) {
  const double planned = static_cast<double>(t.transfers) * DiskRates::kLatency +
                         static_cast<double>(t.bytes) / bytes_per_s;
  return t.seconds > kEnoughSeconds && t.seconds > kTooSlow * planned;
}

std::string pace_of(const char* does, const DiskTraffic& t, double planned) {
  return fmt::format("the disk {} {:.2f} GB/s, and {:.2f} were planned", does,
                     t.bytes_per_s() * 1e-9, planned * 1e-9);
}

}  // namespace

std::string slow_disk_note(const DiskTraffic& reads, const DiskTraffic& writes,
                           const DiskRates& planned) {
  const bool slow_reads = is_slow(reads, planned.read);
  if (!slow_reads && !is_slow(writes, planned.write)) return "";
  return (slow_reads ? pace_of("reads", reads, planned.read)
                     : pace_of("writes", writes, planned.write)) +
         ": steps take longer than the plan says; after `snug calibrate --offload-dir DIR` plans "
         "rest on what it does";
}

}  // namespace snug

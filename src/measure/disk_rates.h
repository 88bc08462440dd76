// How fast the disk under a directory is, as offload uses it: large transfers, direct where the
// file system takes that.
//
//   DiskRates rates = measure_disk("/nvme");   rates.read;   // bytes per second
#pragma once

#include <cstdint>
#include <string>

#include "cost/device_catalogue.h"

namespace snug {

// Writes `bytes` to a file that has no name, and reads them back. Throws as DiskFile does.
DiskRates measure_disk(const std::string& directory, int64_t bytes = int64_t{1} << 30);

}  // namespace snug

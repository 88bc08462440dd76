// Whether a run's disk keeps the pace that its plan counted on.
//
//   const std::string note = slow_disk_note(disk->reads(), disk->writes(), rates);
//   if (!note.empty())
#pragma once

#include <string>

#include "cost/device_catalogue.h"
#include "hal/disk_file.h"

namespace snug {

// A sentence where one way takes more than three times as long as planned, over a second or more;
// else empty.
std::string slow_disk_note(const DiskTraffic& reads, const DiskTraffic& writes,
                           const DiskRates& planned);

}  // namespace snug

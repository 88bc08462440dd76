// Times of collectives between the ranks of a job.
//
//   WireTimes wire = measure_wire(links.group_of("calibrate", axis), *device);   // on every rank
#pragma once

#include "comm/communicator.h"
#include "comm/job.h"
#include "cost/wire_times.h"
#include "hal/device.h"
#include "snug/calibrate.h"
#include "snug/options.h"

namespace snug {

// Times both kinds that training has, with few bytes and with many; the slower one counts. Takes
// twice `bytes` on the device, what a rank sends to all others together. As this rank sees it.
WireTimes measure_wire(Communicator& group, Device& device, int64_t bytes = int64_t{32} << 20);

// `snug calibrate` as a rank of a job: what the slowest rank sees is kept on
// every host, unless ranks share a GPU.
CalibrateReport calibrate_wire(Job& job, const Options& options);

}  // namespace snug

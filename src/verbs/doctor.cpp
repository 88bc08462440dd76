// The abilities of this machine and this build, and the cost of each missing part. A report:
// nothing here is refused.
#include <thread>

#include "comm/mpi.h"
#include "hal/cpu/cpu_device.h"
#include "machine/missing.h"
#include "snug/snug.h"

namespace snug {

DoctorReport doctor() {
  const HostProbe host{.cores = std::thread::hardware_concurrency(),
                       .memory = total_memory_bytes(),
                       .available = available_memory_bytes()};
  const CudaProbe probe = probe_cuda();
  const MpiProbe found = probe_mpi();
  const MpiRow mpi{found.library, found.why_not};
  std::vector<Missing> missing = missing_of(probe);
  if (mpi.library.empty()) missing.push_back(missing_mpi());
  for (Missing& library : missing_for_tokenizers()) missing.push_back(std::move(library));
  return {.table = doctor_table(host, probe, mpi, missing),
          .json = doctor_json(host, probe, mpi, missing)};
}

}  // namespace snug

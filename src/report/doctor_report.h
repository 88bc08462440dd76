// What `snug doctor` says: the machine row by row, and what each missing thing costs.
#pragma once

#include <string>
#include <vector>

#include "hal/cuda/probe.h"

namespace snug {

struct HostProbe {
  int64_t cores = 0;
  int64_t memory = 0;     // bytes
  int64_t available = 0;  // bytes
};

// What ranks on CPUs may use instead of sockets.
struct MpiRow {
  std::string library;  // "Open MPI v4.1.4"; empty: there is none
  std::string why_not;
};

struct Missing {
  std::string what;   // the row it belongs to
  std::string costs;  // a sentence
  std::string get;    // another
};

std::string doctor_table(const HostProbe& host, const CudaProbe& probe, const MpiRow& mpi,
                         const std::vector<Missing>& missing);
std::string doctor_json(const HostProbe& host, const CudaProbe& probe, const MpiRow& mpi,
                        const std::vector<Missing>& missing);

}  // namespace snug

// Ranks that mpirun started, over the MPI that libsnug_mpi.so was built with: a library next to the
// program, opened when it is first asked for, so that snug starts where there is no MPI.
//
//   std::unique_ptr<Bootstrap> all = mpi_bootstrap();
//   std::unique_ptr<Communicator> group = mpi_group(*all, "gather");
//
// Calls begin what they do and ask whether it has ended, so that a failure of another rank ends
// them, and so that two groups take turns where MPI allows one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "comm/bootstrap.h"
#include "comm/communicator.h"

namespace snug {

struct MpiProbe {
  std::string library;  // "Open MPI v4.1.4"
  std::string why_not;  // a sentence; empty: it can be used
};
MpiProbe probe_mpi();  // starts nothing

// All processes that one mpirun started. Starts MPI, which ends with the process.
std::unique_ptr<Bootstrap> mpi_bootstrap();

struct MpiSettings {
  int64_t most_bytes = int64_t{1} << 28;  // of one rank in one call of MPI, which counts in int
  bool one_at_a_time = false;  // from now on, as where MPI allows no calls of two threads at once
};

// Of the ranks of any Bootstrap: all or some of those that one mpirun started.
std::unique_ptr<Communicator> mpi_group(Bootstrap& bootstrap, std::string_view name,
                                        const MpiSettings& settings = {});

}  // namespace snug

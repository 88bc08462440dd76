// This process's place in a job, as its launcher says in the environment. The first of these
// that is there counts:
//
//   torchrun   RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT (`snug train --ranks` too)
//   mpirun     OMPI_COMM_WORLD_RANK, ..._SIZE, ..._LOCAL_RANK, or PMI_RANK, PMI_SIZE
//   srun       SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID inside a step (SLURM_STEP_ID)
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace snug {

struct JobPlace {
  int rank = 0;
  int ranks = 1;
  int local_rank = -1;  // among the ranks of this host; -1: not given, joining finds out
  std::string how;      // "torchrun", "mpirun", "srun", "snug"

  // Where rank 0 listens: a host and port; or a name, where all ranks are on this host; or neither,
  // and the ranks must be told by MPI.
  std::string address;
  int port = 0;
  std::string local_name;
  int listener = -1;  // a socket that rank 0 inherits and that listens already; -1: none

  std::string
      token;  // what every rank must present: SNUG_JOB_TOKEN, or the starter's id of the job
};

using Lookup = std::function<const char*(const char* name)>;
// Nothing: this process is alone. Throws a usage error where half of a place is set, or nonsense.
std::optional<JobPlace> job_place(const Lookup& variable);
std::optional<JobPlace> job_place();  // of this process's environment

// "node01" of "node[01-04,07],other": the first host of a list as SLURM writes it.
std::string first_host(std::string_view slurm_list);
bool is_loopback(std::string_view address);

// The environment variables in which `snug train --ranks` tells its ranks what no other starter does.
inline constexpr const char* kTokenVariable = "SNUG_JOB_TOKEN";
inline constexpr const char* kListenerVariable = "SNUG_JOB_LISTENER";  // rank 0's socket
inline constexpr const char* kLauncherVariable = "SNUG_JOB_LAUNCHER";  // the process that waits

}  // namespace snug

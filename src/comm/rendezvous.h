// How the ranks of a job find each other: rank 0 listens, the others connect and present a token
// and their rank, and when all are there each learns where the others run.
//
// A peer that is not of this job is dropped, which is said once, and costs the job nothing.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/bootstrap.h"
#include "comm/control_line.h"
#include "comm/job_place.h"

namespace snug {

struct RankHost {
  std::string host;
  std::string pid;
};

struct Joined {
  std::vector<ControlLine>
      lines;                    // by rank; of rank 0 to all others, of the others to rank 0 alone
  std::vector<RankHost> hosts;  // by rank
};

// Ranks that a job of several hosts can be asked through before its own connections are there.
using OpenBootstrap = std::function<std::unique_ptr<Bootstrap>()>;

// Throws where not all ranks come within `seconds`, a rank is not of the same job, or no rank 0
// listens: with an empty sentence where rank 0 says it.
Joined rendezvous(const JobPlace& given, double seconds, const OpenBootstrap& over_mpi = {});

// A socket that listens for the other ranks, at a port of this machine's loopback that the system
// chooses: what a launcher hands to rank 0.
tcp::Listener listen_for_ranks();

std::string random_token();
// Takes as long for a wrong text as for the right one.
bool same_token(std::string_view a, std::string_view b);

}  // namespace snug

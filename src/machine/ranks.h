// A rank's way into its job.
//
//   const std::unique_ptr<Job> job = join_job(options);
//   if (job) job->run([&] { require_same_run(*job, options); ... });
#pragma once

#include <memory>

#include "comm/job.h"
#include "snug/options.h"

namespace snug {

// Nothing: this process trains alone. Throws where not all ranks come.
std::unique_ptr<Job> join_job(const Options& options, const OpenBootstrap& over_mpi = {});

// The same program and the same options on all ranks, but for what belongs to a host; and a GPU for
// each, or --share-gpu.
void require_same_run(Job& job, const Options& options);

// The text that is compared: a line for each option.
std::string shared_options_text(const Options& options);

// Of each rank. Those with the same cores of the same host share them. The others wait for the rank
// that has the fewest: all have the same modelled times.
double cores_of_a_rank(Job& job);
// `ranks`: what each says, "node1 0;1;2;".
double fewest_cores(const std::vector<std::string>& ranks);

// Throws a usage error for more ranks than GPUs.
void require_gpus(int64_t ranks, size_t gpus, bool share);

}  // namespace snug

#include "snug/ranks.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>

#include "base/checksum.h"
#include "base/parallel.h"
#include "comm/launch.h"
#include "hal/cpu/cpu_name.h"
#include "hal/cuda/probe.h"
#include "machine/ranks.h"
#include "recipe/mesh_options.h"
#include "recipe/resolve.h"
#include "settings/option_checks.h"

namespace snug {
namespace {

constexpr int64_t kMostLocalRanks = 1024;

// NCCL refuses two ranks on one GPU; ranks that say they are on different hosts, and reach each
// other by sockets alone, pass.
void let_nccl_share_a_gpu(const Job& job) {
  const std::string host = fmt::format("{}-rank-{}", job.host(job.rank()), job.rank());
  setenv("NCCL_HOSTID", host.c_str(), /*overwrite=*/0);
  setenv("NCCL_SOCKET_IFNAME", "lo", /*overwrite=*/0);
  setenv("NCCL_P2P_DISABLE", "1", /*overwrite=*/0);
  setenv("NCCL_SHM_DISABLE", "1", /*overwrite=*/0);
}

void require_gpus_here(const Options& options, int64_t ranks) {
  if (device_of(options) != DeviceChoice::cuda) return;
  const CudaProbe probe = probe_cuda();
  if (probe.why_not.empty()) require_gpus(ranks, probe.driver.gpus.size(), options.share_gpu);
}

// Ranks that the options ask to start on this machine.
int64_t local_ranks(const Options& options) { return mesh_for(options, options.ranks).ranks(); }

std::string binary_text() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  std::vector<char> part(1 << 20);
  Checksum sum;
  while (file.read(part.data(), static_cast<std::streamsize>(part.size())) || file.gcount() > 0)
    sum.add(std::string_view(part.data(), static_cast<size_t>(file.gcount())));
  return sum.text();
}

}  // namespace

RankRole rank_role(const Options& options) {
  require_between(0, kMostLocalRanks, static_cast<double>(options.ranks), "ranks");
  const std::optional<JobPlace> place = job_place();
  if (!place) return {.launches = local_ranks(options) > 1};
  if (options.ranks != 0 && options.ranks != place->ranks) {
    throw usage_error("--ranks {}, and this is rank {} of {} that {} has started", options.ranks,
                      place->rank, place->ranks, place->how)
        .hint("leave --ranks out: the ranks are there");
  }
  return {.prints = place->rank == 0 || options.log_ranks};
}

int launch_ranks(const Options& options, const std::string& verb,
                 const std::vector<std::string>& arguments) {
  const HeldSignals signals;  // CUDA starts threads when it is asked for GPUs
  const int64_t ranks = local_ranks(options);
  require_gpus_here(options, ranks);
  Launch job{.command = {"/proc/self/exe", verb},
             .ranks = static_cast<int>(ranks),
             .show_all = options.log_ranks};
  job.command.insert(job.command.end(), arguments.begin(), arguments.end());
  if (std::getenv("OMP_NUM_THREADS") == nullptr) {
    const size_t threads = std::max<size_t>(1, cores() / static_cast<size_t>(ranks));
    job.environment.push_back(fmt::format("OMP_NUM_THREADS={}", threads));
  }
  return launch(job, signals);
}

std::unique_ptr<Job> join_job(const Options& options, const OpenBootstrap& over_mpi) {
  const std::optional<JobPlace> place = job_place();
  if (!place || place->ranks == 1) return nullptr;
  end_with_launcher();
  const JobLimits limits = job_limits([](const char* name) { return std::getenv(name); });
  std::unique_ptr<Job> job = Job::join(*place, limits, over_mpi);
  if (options.share_gpu) let_nccl_share_a_gpu(*job);
  return job;
}

void require_same_run(Job& job, const Options& options) {
  require_gpus_here(options, job.local_ranks());
  job.require_alike("program (checksums)", binary_text());
  job.require_alike("options", shared_options_text(options));
}

std::string shared_options_text(const Options& options) {
  std::string out = fmt::format("model {}\n", options.model);
  for (const Option& option : all_options())
    if (!option.of_host) out += fmt::format("--{} {}\n", option.key, option.text(options));
  return out;
}

double fewest_cores(const std::vector<std::string>& ranks) {
  double fewest = std::numeric_limits<double>::infinity();
  for (const std::string& rank : ranks)
    fewest = std::min(fewest, static_cast<double>(count_cores(rank)) /
                                  static_cast<double>(std::ranges::count(ranks, rank)));
  return fewest;
}

double cores_of_a_rank(Job& job) {
  return fewest_cores(job.exchange(fmt::format("{} {}", job.host(job.rank()), cores_here())));
}

void require_gpus(int64_t ranks, size_t gpus, bool share) {
  if (share || ranks <= static_cast<int64_t>(gpus)) return;
  throw usage_error("{} ranks on a machine with {} GPU{}", ranks, gpus, gpus == 1 ? "" : "s")
      .hint(
          "a rank has a GPU of its own; --share-gpu lets several use one, which is slow: for "
          "tests");
}

}  // namespace snug

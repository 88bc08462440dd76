#include "train/job_links.h"

#include <thread>
#include <vector>

#include "base/error.h"
#include "comm/mpi.h"
#include "comm/nccl.h"
#include "comm/sockets.h"

namespace snug {

JobLinks::JobLinks(Job& job, DeviceKind kind) : job_(job), kind_(kind) {
  job.on_end([this](const std::string& why) { abort(why); });
}

JobLinks::~JobLinks() { job_.on_end({}); }

// All at once: NCCL returns when the graphs with calls of a group are gone, and who destroys them may
// wait for another group.
void JobLinks::abort(const std::string& why) {
  const std::lock_guard lock(mutex_);
  std::vector<std::jthread> threads;
  for (auto& [name, group] : groups_)
    threads.emplace_back([&why, one = group.get()] { one->abort(why); });
}

Communicator& JobLinks::group_of(std::string_view lane) { return group(lane, kind_); }
Communicator& JobLinks::host_group(std::string_view what) {
  return group(fmt::format("host.{}", what), DeviceKind::cpu);
}

Communicator& JobLinks::group(std::string_view name, DeviceKind kind) {
  if (const auto found = groups_.find(name); found != groups_.end()) return *found->second;
  std::unique_ptr<Communicator> made = open(name, kind);
  const std::lock_guard lock(mutex_);
  return *groups_.emplace(name, std::move(made)).first->second;
}

// The ranks of one mpirun have MPI; all others reach each other by sockets.
std::unique_ptr<Communicator> JobLinks::open(std::string_view name, DeviceKind kind) {
  if (kind == DeviceKind::cuda) return nccl_group(job_, name);
  const bool mpi = job_.place().how == "mpirun" && probe_mpi().why_not.empty();
  return mpi ? mpi_group(job_, name) : socket_group(job_, name);
}

std::function<Communicator&(std::string_view lane)> groups_of(JobLinks* job) {
  if (job == nullptr) return {};
  return [job](std::string_view lane) -> Communicator& { return job->group_of(lane); };
}

}  // namespace snug

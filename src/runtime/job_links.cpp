#include "runtime/job_links.h"

#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "comm/mpi.h"
#include "comm/nccl.h"
#include "comm/sockets.h"
#include "ir/op_def.h"
#include "passes/mesh.h"

namespace snug {

JobLinks::JobLinks(Job& job, DeviceKind kind, const Mesh& mesh, const Sharding& sharding)
    : job_(job), kind_(kind), mesh_(mesh), sharding_(sharding) {
  job.on_end([this](const std::string& why) { abort(why); });
}

JobLinks::~JobLinks() { job_.on_end({}); }

// All at once: NCCL returns when the graphs with calls of a group are gone, and the thread that
// destroys them may wait for another group.
void JobLinks::abort(const std::string& why) {
  const std::lock_guard lock(mutex_);
  std::vector<std::jthread> threads;
  for (auto& [name, group] : groups_)
    threads.emplace_back([&why, one = group.get()] { one->abort(why); });
}

Communicator& JobLinks::group_of(std::string_view lane, std::string_view axis) {
  return group(lane, kind_, job_ranks_on(axis, mesh_, sharding_));
}

void JobLinks::open_groups(const Module& module) {
  struct Peers {
    std::set<int> to, from;
  };
  std::map<std::string, Peers> lanes;  // each with its axis; the peers of this rank's messages
  for (const Program& program : module.programs) {
    for (const Op& op : program.ops) {
      if (op.def->comm == Comm::none) continue;
      Peers& peers = lanes[op.lane + " " + op.attrs.s("axis")];
      if (op.def->comm == Comm::send) peers.to.insert(static_cast<int>(op.attrs.i("peer")));
      if (op.def->comm == Comm::recv) peers.from.insert(static_cast<int>(op.attrs.i("peer")));
    }
  }
  std::vector<std::string> mine;
  for (const auto& [lane, peers] : lanes) mine.push_back(lane);
  for (const std::string& others : job_.exchange(join(mine, "\n"))) {
    for (const std::string& lane : split(others, '\n'))
      if (!lane.empty()) lanes.try_emplace(lane);
  }
  for (const auto& [lane, peers] : lanes) {
    const size_t space = lane.find(' ');
    group_of(lane.substr(0, space), lane.substr(space + 1))
        .connect(std::vector(peers.to.begin(), peers.to.end()),
                 std::vector(peers.from.begin(), peers.from.end()));
  }
}

Communicator& JobLinks::host_group(std::string_view what) {
  std::vector<int> all(static_cast<size_t>(job_.ranks()));
  std::iota(all.begin(), all.end(), 0);
  return group(fmt::format("host.{}", what), DeviceKind::cpu, std::move(all));
}

Communicator& JobLinks::group(std::string_view name, DeviceKind kind, std::vector<int> members) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = groups_.find(name); found != groups_.end()) return *found->second;
  }
  PartBootstrap part(job_, std::move(members));
  std::unique_ptr<Communicator> made = open(name, kind, part);
  const std::lock_guard lock(mutex_);
  return *groups_.emplace(name, std::move(made)).first->second;
}

// The ranks of one mpirun have MPI; all others reach each other by sockets.
std::unique_ptr<Communicator> JobLinks::open(std::string_view name, DeviceKind kind,
                                             Bootstrap& members) const {
  if (kind == DeviceKind::cuda) return nccl_group(members, name);
  const bool mpi = job_.place().how == "mpirun" && probe_mpi().why_not.empty();
  return mpi ? mpi_group(members, name) : socket_group(members, name);
}

std::function<Communicator&(std::string_view lane, std::string_view axis)> groups_of(
    JobLinks* job) {
  if (job == nullptr) return {};
  return [job](std::string_view lane, std::string_view axis) -> Communicator& {
    return job->group_of(lane, axis);
  };
}

}  // namespace snug

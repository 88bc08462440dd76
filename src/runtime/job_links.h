// What a run needs of the job that it is a rank of: groups of ranks, and small numbers from all.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "comm/job.h"
#include "hal/device.h"
#include "ir/program.h"
#include "passes/mesh.h"

namespace snug {

class JobLinks {
 public:
  // Collectives move what is on that kind of device, among the ranks of their axis. When the job fails,
  // every call that waits for other ranks throws.
  JobLinks(Job& job, DeviceKind kind, const Mesh& mesh, const Sharding& sharding);
  ~JobLinks();
  JobLinks(const JobLinks&) = delete;
  JobLinks& operator=(const JobLinks&) = delete;

  Job& job() const { return job_; }
  bool is_first() const { return job_.rank() == 0; }
  // The group of a lane's collectives. All ranks ask for the same lanes in the same order.
  Communicator& group_of(std::string_view lane, std::string_view axis);
  // Where ranks have different programs, stages of a pipeline: opens the groups of all of them, and
  // connects those that send to each other.
  void open_groups(const Module& module);
  // One that moves bytes of the host, whatever the device: "model".
  Communicator& host_group(std::string_view what);

 private:
  void abort(const std::string& why);
  Communicator& group(std::string_view name, DeviceKind kind, std::vector<int> members);
  std::unique_ptr<Communicator> open(std::string_view name, DeviceKind kind,
                                     Bootstrap& members) const;

  Job& job_;
  DeviceKind kind_;
  Mesh mesh_;
  Sharding sharding_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Communicator>, std::less<>> groups_;
};

// As an executor asks for them; nothing where there is no job.
std::function<Communicator&(std::string_view lane, std::string_view axis)> groups_of(JobLinks* job);

}  // namespace snug

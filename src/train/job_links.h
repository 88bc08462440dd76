// What a run needs of the job that it is a rank of: groups of ranks, and small numbers from all.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "comm/communicator.h"
#include "comm/job.h"
#include "hal/device.h"

namespace snug {

class JobLinks {
 public:
  // Collectives move what is on that kind of device. When the job fails, every call that waits for
  // other ranks throws.
  JobLinks(Job& job, DeviceKind kind);
  ~JobLinks();
  JobLinks(const JobLinks&) = delete;
  JobLinks& operator=(const JobLinks&) = delete;

  Job& job() const { return job_; }
  bool is_first() const { return job_.rank() == 0; }
  // The group of a lane's collectives. All ranks ask for the same lanes in the same order.
  Communicator& group_of(std::string_view lane);
  // One that moves bytes of the host, whatever the device: "model".
  Communicator& host_group(std::string_view what);

 private:
  void abort(const std::string& why);
  Communicator& group(std::string_view name, DeviceKind kind);
  std::unique_ptr<Communicator> open(std::string_view name, DeviceKind kind);

  Job& job_;
  DeviceKind kind_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Communicator>, std::less<>> groups_;
};

// As an executor asks for them; nothing where there is no job.
std::function<Communicator&(std::string_view lane)> groups_of(JobLinks* job);

}  // namespace snug

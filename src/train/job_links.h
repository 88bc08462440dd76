// What a run needs of the job that it is a rank of: groups of ranks, and small numbers from all.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "comm/communicator.h"
#include "comm/job.h"
#include "hal/device.h"

namespace snug {

class JobLinks {
 public:
  // Collectives move what is on that kind of device.
  JobLinks(Job& job, DeviceKind kind) : job_(job), kind_(kind) {}

  Job& job() const { return job_; }
  bool is_first() const { return job_.rank() == 0; }
  // The group of a lane's collectives. All ranks ask for the same lanes in the same order.
  Communicator& group_of(std::string_view lane);
  // One that moves bytes of the host, whatever the device.
  Communicator& host_group();
  // Lets every call that waits for other ranks throw: the job has failed.
  void abort(std::string_view why);

 private:
  std::unique_ptr<Communicator> open(std::string_view name, DeviceKind kind);

  Job& job_;
  DeviceKind kind_;
  std::map<std::string, std::unique_ptr<Communicator>, std::less<>> groups_;
};

}  // namespace snug

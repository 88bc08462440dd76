#include "train/job_links.h"

#include "base/error.h"
#include "comm/sockets.h"

namespace snug {
namespace {

constexpr const char* kHostGroup = "host";

}  // namespace

Communicator& JobLinks::group_of(std::string_view lane) {
  const auto found = groups_.find(lane);
  if (found != groups_.end()) return *found->second;
  return *groups_.emplace(lane, open(lane, kind_)).first->second;
}

Communicator& JobLinks::host_group() {
  const auto found = groups_.find(kHostGroup);
  if (found != groups_.end()) return *found->second;
  return *groups_.emplace(kHostGroup, open(kHostGroup, DeviceKind::cpu)).first->second;
}

void JobLinks::abort(std::string_view why) {
  for (auto& [name, group] : groups_) group->abort(why);
}

std::unique_ptr<Communicator> JobLinks::open(std::string_view name, DeviceKind kind) {
  if (kind == DeviceKind::cuda)
    throw usage_error("ranks on GPUs are not built yet").hint("--device cpu trains over ranks");
  return socket_group(job_, name);
}

}  // namespace snug

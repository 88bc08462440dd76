// A connection between every two ranks of a group, formed through a Bootstrap. A connection first
// presents the group's token; one that does not is closed, and the group forms all the same.
#pragma once

#include <string_view>
#include <vector>

#include "comm/bootstrap.h"
#include "comm/tcp.h"

namespace snug {

// Two connections: the bytes of calls, and what ends a group (a failure, a goodbye).
struct SocketLink {
  tcp::Socket data, control;
};

struct MeshSettings {
  double timeout_s = 60;
  bool loopback =
      true;  // where all ranks are on one machine; false: its other addresses, for tests
};

// By rank; this rank's own is empty. `name` is the group's in messages.
std::vector<SocketLink> socket_mesh(Bootstrap& bootstrap, std::string_view name,
                                    const MeshSettings& settings);

}  // namespace snug

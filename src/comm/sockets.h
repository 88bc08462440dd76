// Ranks that are processes on CPUs, over TCP: every two of them are connected, each call moves
// bytes directly between the ranks that have and need them, and all its sends and receives progress
// together.
//
//   std::unique_ptr<Communicator> group = socket_group(job, "gather");
#pragma once

#include <memory>
#include <string_view>

#include "comm/bootstrap.h"
#include "comm/communicator.h"
#include "comm/socket_mesh.h"

namespace snug {

// All ranks of the Bootstrap call it. `name` is the group's in messages.
std::unique_ptr<Communicator> socket_group(Bootstrap& bootstrap, std::string_view name,
                                           const MeshSettings& settings = {});

}  // namespace snug

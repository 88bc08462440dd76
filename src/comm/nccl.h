// Ranks that are processes with a GPU each, over NCCL: a library that is opened when it is first
// asked for. What is called is enqueued on a stream, and may be recorded in a graph.
//
//   std::unique_ptr<Communicator> group = nccl_group(job, "gather");
//
// Graphs that hold calls of a group are destroyed before the group: NCCL waits for them.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "comm/bootstrap.h"
#include "comm/communicator.h"

namespace snug {

// A sentence: no CUDA backend in this build, no library, or one that is too old. Empty: it can be
// used.
std::string why_no_nccl();

// What NCCL is granted of a GPU's memory, in a process. Measured with 2.28.3 on an H200, 2 and 4 ranks
// over sockets: 438 MiB that the first group takes (kernels, their stacks), 18 MiB more for each.
constexpr int64_t kNcclBytes = int64_t{464} << 20, kNcclGroupBytes = int64_t{24} << 20;

// On the current device. All ranks of the Bootstrap call it.
std::unique_ptr<Communicator> nccl_group(Bootstrap& bootstrap, std::string_view name);

}  // namespace snug

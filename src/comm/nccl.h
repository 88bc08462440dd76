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

// What one group is granted of device memory.
inline constexpr int64_t kNcclBytes = int64_t{1} << 30;

// On the current device. All ranks of the Bootstrap call it.
std::unique_ptr<Communicator> nccl_group(Bootstrap& bootstrap, std::string_view name);

}  // namespace snug

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

// What a group of GPUs on one machine is granted of device memory, for its rings and for messages
// between every two ranks. NCCL connects with up to 32 channels; a channel holds 10 MiB where it
// receives and 2 MiB where it sends (NVIDIA/nccl issue 1685: 3.3 GB more for the first all_to_all on
// 8 H100s with NVLink). Not yet measured by us.
constexpr int64_t nccl_bytes(int ranks) {
  constexpr int64_t kChannels = 32, kChannelBytes = int64_t{12} << 20;
  return ranks > 1 ? ranks * kChannels * kChannelBytes : 0;
}

// On the current device. All ranks of the Bootstrap call it.
std::unique_ptr<Communicator> nccl_group(Bootstrap& bootstrap, std::string_view name);

}  // namespace snug

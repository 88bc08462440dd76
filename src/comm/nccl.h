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
// over sockets: 438 MiB that the first group brings (kernels, their stacks), 18 MiB more for each.
constexpr int64_t kNcclBytes = int64_t{464} << 20, kNcclGroupBytes = int64_t{24} << 20;

// And for the job's two groups together. GPUs that reach each other's memory have buffers there: 10
// MiB where a channel receives (NCCL's three protocols take 0.5, 4.7 and 4 MiB, in pages of 2) and 2
// MiB where it sends, up to 32 channels: to the next rank of the ring in each group, and to every other
// one in the group that exchanges. Not measured by us; NVIDIA/nccl issue 1685 has 3.3 GB for the first
// exchange of 8 H100s. Over sockets, as ranks of one GPU are, they are in host memory.
constexpr int64_t nccl_bytes(int ranks, bool share_gpu) {
  if (ranks < 2) return 0;
  constexpr int64_t kConnection = 32 * (int64_t{12} << 20);
  return kNcclBytes + 2 * kNcclGroupBytes + (share_gpu ? 0 : (2 + ranks - 1) * kConnection);
}

// On the current device. All ranks of the Bootstrap call it.
std::unique_ptr<Communicator> nccl_group(Bootstrap& bootstrap, std::string_view name);

}  // namespace snug

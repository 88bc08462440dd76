// The text of an out-of-memory error: PyTorch's in the wording of its versions, CUDA's, cuBLAS's,
// NCCL's, a host allocation's, and the kernel's when it kills a process.
//
//   if (const auto oom = read_oom_log("train.log")) oom->asked;
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "pytorch/stacks.h"

namespace snug::pytorch {

enum class OomKind : uint8_t {
  pytorch,      // its allocator
  cublas,       // no memory left for a handle or a workspace
  nccl,         // nor for its buffers
  cuda,         // the driver, without numbers
  host,         // an allocation of the CPU's memory
  killed,       // by the kernel: the machine's memory
  cgroup,       // by the kernel: a container's or a job's limit
  signal_nine,  // the process is gone, and no line says why
};

struct OomLog {
  OomKind kind = OomKind::pytorch;
  int64_t line = 0;   // of the log, from 1
  std::string text;   // that line
  int64_t times = 0;  // lines of this kind
  std::optional<int64_t> gpu;
  std::optional<int64_t> asked, total, free;
  std::optional<int64_t> process;    // in use by this process, with context and libraries
  std::optional<int64_t> allocated;  // in tensors
  std::optional<int64_t> unused;     // held by the allocator, in no tensor
  std::optional<int64_t> allowed;    // set_per_process_memory_fraction
  std::string victim;                // killed: the process's name
  StackFacts where;                  // of the traceback before it
  std::vector<std::string> frames;   // innermost first, of the script and its libraries
  std::string through;               // "DeepSpeed", "Accelerate", "Lightning"; empty: none
};

// None: no such error is in it. Reads in blocks, whatever its size.
std::optional<OomLog> read_oom_log(const std::filesystem::path& path);

}  // namespace snug::pytorch

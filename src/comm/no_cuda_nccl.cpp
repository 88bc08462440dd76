// Stubs of NCCL for a build without CUDA.
#include "base/error.h"
#include "comm/nccl.h"
#include "hal/cuda/probe.h"

namespace snug {

std::string why_no_nccl() { return why_no_cuda(); }

std::unique_ptr<Communicator> nccl_group(Bootstrap&, std::string_view name) {
  throw device_error("{}: {}", name, why_no_nccl());
}

}  // namespace snug

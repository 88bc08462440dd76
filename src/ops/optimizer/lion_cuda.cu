#include "ops/optimizer/optimizer_cuda.h"
#include "ops/optimizer/update_cuda.cuh"

namespace snug::ops {

void lion_cuda(const KernelArgs& a) { launch_updates<Lion>({&a, 1}); }
void lion_many_cuda(std::span<const KernelArgs> all) { launch_updates<Lion>(all); }

}  // namespace snug::ops

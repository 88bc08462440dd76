#include "ops/optimizer/optimizer_cuda.h"
#include "ops/optimizer/update_cuda.cuh"

namespace snug::ops {

void sgd_cuda(const KernelArgs& a) { launch_updates<Sgd>({&a, 1}); }
void sgd_many_cuda(std::span<const KernelArgs> all) { launch_updates<Sgd>(all); }

void sgd_momentum_cuda(const KernelArgs& a) { launch_updates<Momentum>({&a, 1}); }
void sgd_momentum_many_cuda(std::span<const KernelArgs> all) { launch_updates<Momentum>(all); }

}  // namespace snug::ops

#include "ops/optimizer/optimizer_cuda.h"
#include "ops/optimizer/update_cuda.cuh"

namespace snug::ops {

// With every array in bf16: 14 bytes per element and, counted in the machine code, about 90
// instructions, about 18 of them for three draws of noise per eight elements and 30 for the quotient
// and the root, which are exact. At 85% of 4.3 TB/s an H200 has room for 110.
void adamw_cuda(const KernelArgs& a) { launch_updates<Adam>({&a, 1}); }
void adamw_many_cuda(std::span<const KernelArgs> all) { launch_updates<Adam>(all); }

}  // namespace snug::ops

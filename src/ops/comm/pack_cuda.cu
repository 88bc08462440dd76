// Copies that the stream makes one after another: the parts are few and small.
#include "kernels/cuda/map.cuh"
#include "ops/comm/pack.h"

namespace snug::ops {

void pack_cuda(const KernelArgs& args) {
  const int64_t size = size_of(args.out(0).type->dtype);
  const int64_t unit = args.attrs.i("unit", kPackUnit);
  std::byte* row = args.out<std::byte>(0);
  cuda::check(
      cudaMemsetAsync(row, 0, static_cast<size_t>(args.out(0).type->bytes()), stream_of(args)),
      "clearing a row");
  for (const Tensor& part : args.inputs) {
    cuda::check(cudaMemcpyAsync(row, part.data, static_cast<size_t>(part.type->bytes()),
                                cudaMemcpyDeviceToDevice, stream_of(args)),
                "packing {} bytes", part.type->bytes());
    row += packed(part.elements(), unit) * size;
  }
}

}  // namespace snug::ops

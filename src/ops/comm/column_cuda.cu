// Copies that the stream makes: the rows that are there as a whole, then what is left of the last.
#include <algorithm>

#include "kernels/cuda/map.cuh"
#include "ops/comm/column.h"

namespace snug::ops {

void column_cuda(const KernelArgs& args) {
  const int64_t size = size_of(args.out(0).type->dtype), elements = args.out(0).elements();
  const int64_t row = args.in(0).elements() / args.attrs.i("ranks"), each = args.attrs.i("each");
  const int64_t whole = elements / each, rest = elements % each;
  const std::byte* from = args.in<std::byte>(0) + args.attrs.i("first") * size;
  std::byte* to = args.out<std::byte>(0);
  const auto copy = [&](int64_t rows, int64_t width) {
    if (rows == 0 || width == 0) return;
    cuda::check(
        cudaMemcpy2DAsync(to, static_cast<size_t>(each * size), from,
                          static_cast<size_t>(row * size), static_cast<size_t>(width * size),
                          static_cast<size_t>(rows), cudaMemcpyDeviceToDevice, stream_of(args)),
        "copying {} rows of {} elements", rows, width);
    from += rows * row * size;
    to += rows * each * size;
  };
  copy(whole, each);
  copy(1, rest);
}

}  // namespace snug::ops

// The second half of a sum over rows: kernels leave one partial sum per block of rows, and these are
// added up in order, so that the bits do not depend on the number of threads.
//
//   sum_blocks(a, /*port=*/1, P::dweight_sum, partial, blocks, /*stride=*/C);
#pragma once

#include "kernels/float_kernels.h"

namespace snug::ops {

// Output `port`, a parameter's gradient in its own type: start[c] + partial[0, c] + partial[1, c] +
// ..., where start, in the same type, may be absent or be the output.
inline void sum_blocks(const KernelArgs& a, size_t port, size_t start_port, const float* partial,
                       int64_t blocks, int64_t stride) {
  visit_float(a.out(port).type->dtype, [&](auto zero) {
    using G = decltype(zero);
    const G* start = a.in<G>(start_port);
    G* out = a.out<G>(port);
    const int64_t C = a.out(port).elements();
#pragma omp parallel for simd schedule(static)
    for (int64_t c = 0; c < C; ++c) {
      float sum = start != nullptr ? float(start[c]) : 0;
      for (int64_t b = 0; b < blocks; ++b) sum += partial[b * stride + c];
      store(out[c], sum);
    }
  });
}

}  // namespace snug::ops

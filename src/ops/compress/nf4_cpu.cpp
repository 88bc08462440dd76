#include "ops/compress/nf4_cpu.h"

#include <algorithm>

#include "kernels/cpu/for_blocks.h"
#include "kernels/float_kernels.h"
#include "ops/compress/nf4.h"

namespace snug::ops {

static_assert(kBlockElements % kNf4Block == 0, "a thread's share must be whole blocks");

void dequantize_nf4_cpu(const KernelArgs& a) {
  const uint8_t* codes = a.in<uint8_t>(0);  // [n / 2]
  const float* scales = a.in<float>(1);     // [blocks]
  visit_float(a.out(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    T* x = a.out<T>(0);
    for_blocks(a.out(0).elements(), [=](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; at += kNf4Block) {
        float levels[16];  // of this block
        for (size_t i = 0; i < kNf4Levels.size(); ++i)
          levels[i] = kNf4Levels[i] * scales[at / kNf4Block];
        for (int64_t i = at; i < std::min(at + kNf4Block, end); i += 2) {
          const uint8_t byte = codes[i / 2];
          store(x[i], levels[byte >> 4]);
          store(x[i + 1], levels[byte & 15]);
        }
      }
    });
  });
}

}  // namespace snug::ops

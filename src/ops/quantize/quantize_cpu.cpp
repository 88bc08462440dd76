#include "ops/quantize/quantize_cpu.h"

#include <algorithm>

#include "kernels/cpu/for_blocks.h"
#include "kernels/float_kernels.h"
#include "ops/quantize/blocks_cpu.h"

namespace snug::ops {
namespace {

static_assert(kBlockElements % kInt8.block == 0, "a thread's share must be whole blocks");
static_assert(kBlockElements % kNf4.block == 0, "a thread's share must be whole blocks");

// Calls fn(block, first element, elements) for every block of n elements.
template <const Format& format, typename Fn>
void for_blocks_of(int64_t n, const Fn& fn) {
  for_blocks(n, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; at += format.block) {
      fn(at / format.block, at, std::min(format.block, end - at));
    }
  });
}

}  // namespace

void quantize_int8_cpu(const KernelArgs& a) {
  int8_t* payload = a.out<int8_t>(0);  // [n]
  float* scales = a.out<float>(1);     // [blocks]
  visit_float(a.in(0).type->dtype, [&](auto zero) {
    const auto* x = a.in<decltype(zero)>(0);
    for_blocks_of<kInt8>(a.in(0).elements(), [=](int64_t block, int64_t at, int64_t n) {
      scales[block] = quantize_int8_block(x + at, payload + at, n);
    });
  });
}

void dequantize_int8_cpu(const KernelArgs& a) {
  const int8_t* payload = a.in<int8_t>(0);  // [n]
  const float* scales = a.in<float>(1);     // [blocks]
  visit_float(a.out(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    T* x = a.out<T>(0);
    for_blocks_of<kInt8>(a.out(0).elements(), [=](int64_t block, int64_t at, int64_t n) {
      const float scale = scales[block];
#pragma omp simd
      for (int64_t i = at; i < at + n; ++i) store(x[i], static_cast<float>(payload[i]) * scale);
    });
  });
}

void dequantize_nf4_cpu(const KernelArgs& a) {
  const uint8_t* codes = a.in<uint8_t>(0);  // [n / 2]
  const float* scales = a.in<float>(1);     // [blocks]
  visit_float(a.out(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    T* x = a.out<T>(0);
    for_blocks_of<kNf4>(a.out(0).elements(), [=](int64_t block, int64_t at, int64_t n) {
      float levels[16];  // of this block
      for (size_t i = 0; i < kNf4Levels.size(); ++i) levels[i] = kNf4Levels[i] * scales[block];
      for (int64_t i = at; i < at + n; i += 2) {
        const uint8_t byte = codes[i / 2];
        store(x[i], levels[byte >> 4]);
        store(x[i + 1], levels[byte & 15]);
      }
    });
  });
}

}  // namespace snug::ops

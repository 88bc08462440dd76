#include "ops/compress/int8_cpu.h"

#include <algorithm>
#include <bit>

#include "kernels/cpu/for_blocks.h"
#include "kernels/float_kernels.h"
#include "ops/compress/int8.h"
#include "ops/compress/int8_scale.h"

namespace snug::ops {
namespace {

static_assert(kBlockElements % kInt8Block == 0, "a thread's share must be whole blocks");

// Calls fn(block, first element, elements) for every block of n elements.
template <typename Fn>
void for_int8_blocks(int64_t n, const Fn& fn) {
  for_blocks(n, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; at += kInt8Block) {
      fn(at / kInt8Block, at, std::min(kInt8Block, end - at));
    }
  });
}

// The largest magnitude. Compared as integers, where infinity is above every number and NaN above
// infinity: neither is lost, and the order of the elements does not matter.
float absmax(const float* x, int64_t n) {
  uint32_t largest = 0;
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < n; ++i) {
    largest = std::max(largest, std::bit_cast<uint32_t>(x[i]) & 0x7FFFFFFF);
  }
  return std::bit_cast<float>(largest);
}

template <typename T>
float quantize_block(const T* x, int8_t* payload, int64_t n) {
  float values[kInt8Block];
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) values[i] = static_cast<float>(x[i]);
  const Int8Scale scale = Int8Scale::of(absmax(values, n));
  if (scale.inverse == 0) {
    std::fill_n(payload, n, int8_t{0});
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) payload[i] = scale.quantize(values[i]);
  }
  return scale.scale;
}

}  // namespace

void quantize_int8_cpu(const KernelArgs& a) {
  int8_t* payload = a.out<int8_t>(0);  // [n]
  float* scales = a.out<float>(1);     // [blocks]
  visit_float(a.in(0).type->dtype, [&](auto zero) {
    const auto* x = a.in<decltype(zero)>(0);
    for_int8_blocks(a.in(0).elements(), [=](int64_t block, int64_t at, int64_t n) {
      scales[block] = quantize_block(x + at, payload + at, n);
    });
  });
}

void dequantize_int8_cpu(const KernelArgs& a) {
  const int8_t* payload = a.in<int8_t>(0);  // [n]
  const float* scales = a.in<float>(1);     // [blocks]
  visit_float(a.out(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    T* x = a.out<T>(0);
    for_int8_blocks(a.out(0).elements(), [=](int64_t block, int64_t at, int64_t n) {
      const float scale = scales[block];
#pragma omp simd
      for (int64_t i = at; i < at + n; ++i) store(x[i], static_cast<float>(payload[i]) * scale);
    });
  });
}

}  // namespace snug::ops

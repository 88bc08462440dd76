// nf4 on CUDA, with the same bits as on the CPU.
#include "kernels/cuda/map.cuh"
#include "ops/compress/nf4.h"
#include "ops/compress/nf4_cuda.h"

namespace snug::ops {
namespace {

// The levels as a chain of selects would be a dozen instructions a weight; a warp holds all sixteen
// in its lanes' registers, and a shuffle picks one.
__device__ float level_of(float mine, uint32_t code) {
  return __shfl_sync(0xFFFFFFFF, mine, static_cast<int>(code));
}

struct Nf4Table {
  float v[16];
};

constexpr int kThreads = 256;

// A thread makes the 2 * kBytes elements of its kBytes bytes, all of one block.
template <int kBytes, typename T>
__global__ void __launch_bounds__(kThreads)
    dequantize_kernel(const uint8_t* codes, const float* scales, T* x, int64_t bytes,
                      const Nf4Table table) {
  const float mine = table.v[threadIdx.x % 16];
  const int64_t first = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kBytes;
  const bool inside = first < bytes;  // all lanes take part in the shuffles
  const auto in = inside ? Vector<uint8_t, kBytes>::load(codes + first) : Vector<uint8_t, kBytes>{};
  const float scale = inside ? scales[2 * first / kNf4Block] : 0;
  Vector<T, 2 * kBytes> out;
#pragma unroll
  for (int i = 0; i < kBytes; ++i) {
    out.v[2 * i] = from_float<T>(level_of(mine, in.v[i] >> 4) * scale);
    out.v[2 * i + 1] = from_float<T>(level_of(mine, in.v[i] & 15) * scale);
  }
  if (inside) out.store(x + 2 * first);
}

}  // namespace

void dequantize_nf4_cuda(const KernelArgs& a) {
  const int64_t bytes = a.in(0).elements();
  if (bytes == 0) return;
  Nf4Table table{};
  for (int i = 0; i < 16; ++i) table.v[i] = kNf4Levels[static_cast<size_t>(i)];
  visit_device_float(a.out(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto* codes = a.in<uint8_t>(0);
    T* x = a.out<T>(0);
    const auto launch = [&](auto width) {
      constexpr int kBytes = decltype(width)::value;
      const auto blocks = static_cast<unsigned>(ceil_div(bytes, kThreads * kBytes));
      dequantize_kernel<kBytes>
          <<<blocks, kThreads, 0, stream_of(a)>>>(codes, a.in<float>(1), x, bytes, table);
    };
    constexpr int kWide = 8 / sizeof(T);  // 16 bytes of x at a time
    if (bytes % kWide == 0 && aligned(codes, x)) {
      launch(std::integral_constant<int, kWide>{});
    } else {
      launch(std::integral_constant<int, 1>{});
    }
  });
  check_launch("dequantize_nf4");
}

}  // namespace snug::ops

#include "base/rng.h"
#include "base/units.h"
#include "hal/cuda/arena.h"
#include "hal/cuda/cuda_error.h"

namespace snug::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 2048;

// Two bf16 from 32 random bits: a random sign and fraction, an exponent of 2^-1 or 2^0.
__device__ uint32_t two_bf16(uint32_t bits) { return (bits & 0x80FF80FF) | 0x3F003F00; }

__global__ void noise(uint4* data, int64_t n) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < n; i += stride) {
    const auto r = philox(0x5EED, static_cast<uint64_t>(i));
    data[i] = {two_bf16(r[0]), two_bf16(r[1]), two_bf16(r[2]), two_bf16(r[3])};
  }
}

__global__ void last_changed(const uint8_t* data, int64_t bytes, unsigned long long* end) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  const int64_t words = bytes / 16;
  constexpr uint32_t kWord = kPattern * 0x01010101U;
  int64_t last = 0;
  const auto look = [&](int64_t at) {
    if (data[at] != kPattern) last = last > at + 1 ? last : at + 1;
  };
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  for (int64_t i = first; i < words; i += stride) {
    const uint4 w = reinterpret_cast<const uint4*>(data)[i];
    if (w.x == kWord && w.y == kWord && w.z == kWord && w.w == kWord) continue;
    for (int64_t at = 16 * i; at < 16 * i + 16; ++at) look(at);
  }
  if (first < bytes % 16) look(16 * words + first);
  if (last > 0) atomicMax(end, static_cast<unsigned long long>(last));
}

__global__ void mark_it(volatile int32_t* mark, int32_t value) { *mark = value; }

}  // namespace

void fill_noise(std::byte* data, int64_t bytes, cudaStream_t stream) {
  noise<<<kBlocks, kThreads, 0, stream>>>(reinterpret_cast<uint4*>(data), bytes / 16);
  check(cudaGetLastError(), "filling {} bytes with noise", bytes);
}

void find_end(const std::byte* data, int64_t bytes, unsigned long long* end, cudaStream_t stream) {
  check(cudaMemsetAsync(end, 0, sizeof(*end), stream), "clearing a counter");
  last_changed<<<kBlocks, kThreads, 0, stream>>>(reinterpret_cast<const uint8_t*>(data), bytes,
                                                 end);
  check(cudaGetLastError(), "looking through {} bytes", bytes);
}

void write_mark(int32_t* mark, int32_t value, cudaStream_t stream) {
  mark_it<<<1, 1, 0, stream>>>(mark, value);
  check(cudaGetLastError(), "leaving a mark");
}

}  // namespace snug::cuda

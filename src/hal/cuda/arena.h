// What the device does with the bytes of an arena in addition to computing: the pattern that
// tells what was written, noise to time algorithms on, marks. All only enqueue.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace snug::cuda {

constexpr uint8_t kPattern =
    0xFB;  // as the top byte of a float about -1e36: nothing training writes

void fill_noise(std::byte* data, int64_t bytes, cudaStream_t stream);

// *end = 1 + the index of the last byte that differs from the pattern, or 0.
void find_end(const std::byte* data, int64_t bytes, unsigned long long* end, cudaStream_t stream);

void write_mark(int32_t* mark, int32_t value, cudaStream_t stream);

}  // namespace snug::cuda

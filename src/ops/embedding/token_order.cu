// From the lowest digit to the highest: every tile counts its first digits, then moves its tokens
// to where the counts of all tiles say, and counts the next digits where they arrive.
#include "ops/embedding/token_order.h"

#include "kernels/cuda/launch.cuh"

namespace snug::ops {
namespace {

constexpr int kThreads = kTokenTile;  // one token each
constexpr int kWarps = kThreads / 32;
constexpr int kDigits = kTokenDigits;
static_assert(kDigits <= kThreads && kDigits % 32 == 0);

// What a digit is sorted from: the tokens in their original order, or the places by lower digits.
struct Source {
  const int32_t* tokens;     // first digit
  const TokenPlace* places;  // later digits

  __device__ TokenPlace at(int i) const {
    return places != nullptr ? places[i] : TokenPlace{i, tokens[i]};
  }
};

__device__ int digit_of(int32_t token, int shift) { return (token >> shift) & (kDigits - 1); }

// counts [digits, tiles, kDigits]: of the first digit; of the others zeros, for the moves to fill.
__global__ void __launch_bounds__(kThreads)
    count_first_digit(const int32_t* tokens, int n, int32_t* counts, int later) {
  after_previous();
  __shared__ int32_t count[kDigits];
  if (threadIdx.x < kDigits) count[threadIdx.x] = 0;
  __syncthreads();
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i < n) atomicAdd(&count[digit_of(tokens[i], 0)], 1);
  __syncthreads();
  if (threadIdx.x >= kDigits) return;
  const int all = gridDim.x * kDigits, own = blockIdx.x * kDigits + threadIdx.x;
  counts[own] = count[threadIdx.x];
  for (int d = 1; d <= later; ++d) counts[d * all + own] = 0;
}

// The sum over all lower threads of the block.
__device__ int32_t sum_below(int32_t x) {
  __shared__ int32_t warp_total[kWarps];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int32_t sum = x;  // over the lanes up to this one
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const int32_t lower = __shfl_up_sync(0xFFFFFFFF, sum, offset);
    if (lane >= offset) sum += lower;
  }
  if (lane == 31) warp_total[warp] = sum;
  __syncthreads();
  for (int w = 0; w < warp; ++w) sum += warp_total[w];
  return sum - x;
}

// Where the first token of this thread's digit in this tile goes: after all lower digits, and
// after its own digit in lower tiles.
__device__ int32_t start_of_digit(const int32_t* counts, int tiles) {
  int32_t before = 0, total = 0;
  if (threadIdx.x < kDigits) {
#pragma unroll 16
    for (int tile = 0; tile < tiles; ++tile) {
      const int32_t count = counts[tile * kDigits + threadIdx.x];
      total += count;
      before += tile < static_cast<int>(blockIdx.x) ? count : 0;
    }
  }
  return sum_below(total) + before;
}

__global__ void __launch_bounds__(kThreads)
    move_tokens(Source from, int n, int shift, const int32_t* counts, TokenPlace* to,
                int32_t* next) {
  after_previous();
  __shared__ int32_t start[kDigits];                // of the digit in this tile
  __shared__ uint16_t warp_count[kWarps][kDigits];  // then: in the warps before
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int d = lane; d < kDigits; d += 32) warp_count[warp][d] = 0;
  const int32_t first = start_of_digit(counts, gridDim.x);
  if (threadIdx.x < kDigits) start[threadIdx.x] = first;

  const int i = blockIdx.x * kThreads + threadIdx.x;
  const TokenPlace place = i < n ? from.at(i) : TokenPlace{};
  const int digit = i < n ? digit_of(place.token, shift) : kDigits;  // of none
  __syncwarp();
  const unsigned peers = __match_any_sync(0xFFFFFFFF, digit);
  const int rank = __popc(peers & ((1U << lane) - 1));
  if (rank == 0 && i < n) warp_count[warp][digit] = static_cast<uint16_t>(__popc(peers));
  __syncthreads();

  if (threadIdx.x < kDigits) {
    int before = 0;
    for (int w = 0; w < kWarps; ++w) {
      const int count = warp_count[w][threadIdx.x];
      warp_count[w][threadIdx.x] = static_cast<uint16_t>(before);
      before += count;
    }
  }
  __syncthreads();
  if (i >= n) return;
  const int at = start[digit] + warp_count[warp][digit] + rank;
  to[at] = place;
  if (next != nullptr)
    atomicAdd(&next[at / kThreads * kDigits + digit_of(place.token, shift + kTokenDigitBits)], 1);
}

}  // namespace

const TokenPlace* order_tokens(const int32_t* tokens, int64_t n, int64_t rows, void* scratch,
                               void* stream) {
  const auto tiles = static_cast<unsigned>(ceil_div(n, kTokenTile));
  auto* source = static_cast<TokenPlace*>(scratch);
  TokenPlace* target = source + tiles * kTokenTile;
  auto* counts = reinterpret_cast<int32_t*>(target + tiles * kTokenTile);
  const auto on = static_cast<cudaStream_t>(stream);
  Source from{.tokens = tokens, .places = nullptr};
  int later = 0;
  while ((later + 1) * kTokenDigitBits < 31 && (rows - 1) >> ((later + 1) * kTokenDigitBits) > 0)
    ++later;
  launch_after_previous(count_first_digit, tiles, kThreads, 0, on, tokens, static_cast<int>(n),
                        counts, later);
  for (int d = 0; d <= later; ++d, counts += tiles * kDigits) {
    int32_t* next = d < later ? counts + tiles * kDigits : nullptr;
    launch_after_previous(move_tokens, tiles, kThreads, 0, on, from, static_cast<int>(n),
                          static_cast<int>(d * kTokenDigitBits), counts, target, next);
    from.places = target;
    std::swap(source, target);
  }
  return from.places;
}

}  // namespace snug::ops

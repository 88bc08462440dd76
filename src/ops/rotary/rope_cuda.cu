#include <numbers>

#include "kernels/cuda/launch.cuh"
#include "ops/attention/packed_heads.h"
#include "ops/rotary/rope_cuda.h"
#include "ops/rotary/rope_frequency.h"

namespace snug::ops {
namespace {

constexpr int kThreads = 128;
constexpr int kPairs = 256;  // of a head, at most: their frequencies travel as a parameter

// --- angles --------------------------------------------------------------------------------------

struct Angles {
  double turns[kPairs];  // per position, of every pair; back for the inverse
  unsigned half;         // pairs of a head that turn
  unsigned capacity;     // angles that a block keeps in shared memory
};

Angles angles_of(const Attrs& attrs, int64_t half) {
  if (half > kPairs) {
    throw device_error("rope turns heads of {} elements; its CUDA kernel takes {} at most",
                       2 * half, 2 * kPairs);
  }
  Angles angles{.half = static_cast<unsigned>(half)};
  const double direction = attrs.b("inverse", false) ? -1 : 1;
  for (int64_t i = 0; i < half; ++i) {
    angles.turns[i] = direction * rope_frequency(i, attrs) / (2 * std::numbers::pi);
  }
  return angles;
}

// cos and sin of the angles of `count` tokens from t0 on; position_of(t) says where each is. Whole
// turns are taken off in double: what is left has all of f32's digits at any position.
template <typename PositionOf>
__device__ void make_angles(const Angles& angles, unsigned t0, unsigned count, float* cos,
                            float* sin, const PositionOf& position_of) {
  for (unsigned at = threadIdx.x; at < count * angles.half; at += kThreads) {
    const double turns = position_of(t0 + at / angles.half) * angles.turns[at % angles.half];
    sincospif(2 * static_cast<float>(turns - rint(turns)), &sin[at], &cos[at]);
  }
}

// --- the turn ------------------------------------------------------------------------------------

// Neighbouring elements that one thread turns: 16 bytes where half a head divides into them. They
// stay raw until they are used: unpacked early, four samples' would not fit the registers.
template <typename T, bool kPacked>
struct Lanes {
  using Raw = std::conditional_t<kPacked, uint4, T>;
  static constexpr int kSize = sizeof(Raw) / sizeof(T);
  Raw raw;

  __device__ static Lanes load(const T* from) {
    if constexpr (kPacked)
      return {__ldcs(reinterpret_cast<const uint4*>(from))};
    else
      return {*from};
  }
  // Said outright: from a plain assignment the compiler makes four stores of 4 bytes here and
  // there.
  __device__ void store(T* to) const {
    if constexpr (kPacked)
      __stcg(reinterpret_cast<uint4*>(to), raw);
    else
      *to = raw;
  }
  __device__ float operator[](int i) const { return to_float(reinterpret_cast<const T*>(&raw)[i]); }

  // Pairs of these with `other`, by as many angles.
  __device__ void turn(Lanes& other, const float* cosines, const float* sines) {
    using Some = std::conditional_t<kPacked, float4, float>;
    constexpr int kStep = sizeof(Some) / sizeof(float);
    alignas(Raw) T low[kSize], high[kSize];
#pragma unroll
    for (int first = 0; first < kSize; first += kStep) {
      const Some cos = *reinterpret_cast<const Some*>(cosines + first);
      const Some sin = *reinterpret_cast<const Some*>(sines + first);
#pragma unroll
      for (int k = 0; k < kStep; ++k) {
        const float c = reinterpret_cast<const float*>(&cos)[k];
        const float s = reinterpret_cast<const float*>(&sin)[k];
        const float l = (*this)[first + k], h = other[first + k];
        low[first + k] = from_float<T>(l * c - h * s);
        high[first + k] = from_float<T>(h * c + l * s);
      }
    }
    raw = *reinterpret_cast<Raw*>(low);
    other.raw = *reinterpret_cast<Raw*>(high);
  }
};

template <typename T>
struct Turn {
  PackedHeads p;
  const T* x;             // [B, T, (H+2K)*D]
  T* y;                   // the same, may be x
  const int32_t* starts;  // [B, T] or none
  int heads;              // of a row that are written: without v in place
  Angles angles;
};

// One thread: the same lanes of kBatch rows at one position. A block makes the angles of its
// positions, which its heads and rows share, while all its loads are in flight. blockIdx.y: which
// rows. Where rows begin their samples at different tokens, a block has one row.
constexpr int kBatchAtOnce = 4;

template <typename T, bool kPacked, int kBatch>
__global__ void __launch_bounds__(kThreads, 8) turn(const __grid_constant__ Turn<T> a) {
  after_previous();
  using L = Lanes<T, kPacked>;
  extern __shared__ float4 shared[];
  float* const cosines = reinterpret_cast<float*>(shared);
  float* const sines = cosines + a.angles.capacity;
  const PackedHeads& p = a.p;
  const unsigned half = a.angles.half;
  const unsigned of_head = half / L::kSize;
  const unsigned of_row = of_head * static_cast<unsigned>(a.heads);
  const unsigned first = from_end(blockIdx.x, gridDim.x) * kThreads;
  const unsigned item = first + threadIdx.x;
  const unsigned t0 = first / of_row;
  const unsigned t = item / of_row;
  const unsigned h = item % of_row / of_head;
  const unsigned i = item % of_head * L::kSize;
  const int64_t b0 = int64_t{from_end(blockIdx.y, gridDim.y)} * kBatch;
  const int samples = t < p.T ? static_cast<int>(min(p.B - b0, int64_t{kBatch})) : 0;
  const int64_t at = p.q(b0, t, h) + i, sample = p.T * p.width();

  L low[kBatch], high[kBatch];
#pragma unroll
  for (int b = 0; b < kBatch; ++b) {
    if (b >= samples) continue;
    const T* x = a.x + at + b * sample;
    low[b] = L::load(x);
    high[b] = L::load(x + half);
  }
  const auto position_of = [&](unsigned token) {
    if constexpr (kBatch > 1) return token;
    const unsigned there = min(token, static_cast<unsigned>(p.T) - 1);
    return there - static_cast<unsigned>(a.starts[b0 * p.T + there]);
  };
  make_angles(a.angles, t0, (first + kThreads - 1) / of_row - t0 + 1, cosines, sines, position_of);
  __syncthreads();
  const unsigned angle = (t - t0) * half + i;
  const bool turned = h < p.H + p.K;  // v is copied
#pragma unroll
  for (int b = 0; b < kBatch; ++b) {
    if (b >= samples) continue;
    if (turned) low[b].turn(high[b], cosines + angle, sines + angle);
    T* y = a.y + at + b * sample;
    low[b].store(y);
    high[b].store(y + half);
  }
}

template <typename T, bool kPacked, int kBatch>
void launch_rows(Turn<T> a, cudaStream_t stream) {
  const int64_t of_row = a.heads * (a.angles.half / Lanes<T, kPacked>::kSize);
  const int64_t items = a.p.T * of_row;
  // An item's number is 32 bits wide: rows of one sample that were longer would not fit a device.
  if (items + kThreads > int64_t{UINT32_MAX}) {
    throw device_error("rope over {} pairs per sample is beyond what its CUDA kernel counts",
                       items);
  }
  // Of the positions that a block may touch. At least two heads share a position: under 16 KiB.
  a.angles.capacity = static_cast<unsigned>((kThreads - 2) / of_row + 2) * a.angles.half;
  const dim3 grid(static_cast<unsigned>(ceil_div(items, kThreads)),
                  static_cast<unsigned>(ceil_div(a.p.B, kBatch)));
  launch_after_previous(turn<T, kPacked, kBatch>, grid, kThreads,
                        2 * a.angles.capacity * sizeof(float), stream, a);
}

template <typename T, bool kPacked>
void launch(const Turn<T>& a, cudaStream_t stream) {
  if (a.starts != nullptr) return launch_rows<T, kPacked, 1>(a, stream);
  launch_rows<T, kPacked, kBatchAtOnce>(a, stream);
}

}  // namespace

void rope_cuda(const KernelArgs& a) {
  const PackedHeads p = packed_heads(a.in(0).shape(), a.attrs);
  const int64_t R = rotary_dim(a.attrs);
  const Angles angles = angles_of(a.attrs, R / 2);
  visit_device_float(a.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    bool in_place = a.in(0).data == a.out(0).data;
    if (R < p.D && !in_place) {  // what does not turn is copied before, with all else
      const int64_t bytes = a.in(0).type->bytes();
      cuda::check(cudaMemcpyAsync(a.out(0).data, a.in(0).data, static_cast<size_t>(bytes),
                                  cudaMemcpyDeviceToDevice, stream_of(a)),
                  "copying {} bytes", bytes);
      in_place = true;
    }
    const Turn<T> turned{.p = p,
                         .x = in_place ? a.out<T>(0) : a.in<T>(0),
                         .y = a.out<T>(0),
                         .starts = a.in<int32_t>(1),
                         .heads = static_cast<int>(in_place ? p.H + p.K : p.H + 2 * p.K),
                         .angles = angles};
    if (vectorises<T>(angles.half) && vectorises<T>(p.D)) {
      launch<T, true>(turned, stream_of(a));
    } else {
      launch<T, false>(turned, stream_of(a));
    }
  });
}

}  // namespace snug::ops

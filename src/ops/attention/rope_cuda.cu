#include "ops/attention/packed_heads.h"
#include "ops/attention/rope_cuda.h"
#include "ops/attention/rope_frequency.h"
#include "ops/cuda/kernel.cuh"

namespace snug::ops {
namespace {

constexpr int kThreads = 256;

// --- cos and sin of every position, in double as on the CPU --------------------------------------

constexpr int kFrequencies = 128;  // of one launch: they travel as its parameter

struct Frequencies {
  double of[kFrequencies];
};

struct Angles {
  float* cos;  // [T, half]
  float* sin;
  int64_t T, half;
};

// Pairs [first, first + count) of every position.
__global__ void fill_angles(Angles angles, Frequencies frequencies, int64_t first, int count,
                            double direction) {
  const int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= angles.T * count) return;
  const int64_t t = at / count;
  const int i = static_cast<int>(at % count);
  double sin = 0, cos = 0;
  sincos(static_cast<double>(t) * frequencies.of[i], &sin, &cos);
  angles.cos[t * angles.half + first + i] = static_cast<float>(cos);
  angles.sin[t * angles.half + first + i] = static_cast<float>(direction * sin);
}

void make_angles(const KernelArgs& a, const Angles& angles) {
  const double direction = a.attrs.b("inverse", false) ? -1 : 1;
  for (int64_t first = 0; first < angles.half; first += kFrequencies) {
    const int count = static_cast<int>(std::min<int64_t>(kFrequencies, angles.half - first));
    Frequencies frequencies;
    for (int i = 0; i < count; ++i) frequencies.of[i] = rope_frequency(first + i, a.attrs);
    const auto blocks = static_cast<unsigned>(ceil_div(angles.T * count, kThreads));
    fill_angles<<<blocks, kThreads, 0, stream_of(a)>>>(angles, frequencies, first, count,
                                                       direction);
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
  __device__ void store(T* to) const { *reinterpret_cast<Raw*>(to) = raw; }
  __device__ T& operator[](int i) { return reinterpret_cast<T*>(&raw)[i]; }
};

template <int kSize>
__device__ void load_angles(const float* from, float (&to)[kSize]) {
  if constexpr (kSize == 1) {
    to[0] = *from;
  } else {
#pragma unroll
    for (int k = 0; k < kSize; ++k) {
      if (k % 4 == 0) reinterpret_cast<float4&>(to[k]) = reinterpret_cast<const float4&>(from[k]);
    }
  }
}

template <typename T>
struct Turn {
  PackedHeads p;
  const T* x;  // [B, T, (H+2K)*D]
  T* y;        // the same, may be x
  int heads;   // of a row that are written: without v in place
  Angles angles;
};

// One thread: the same lanes of kBatch samples at one position, so that angles are read once and
// all loads are in flight together. blockIdx.y: which samples.
constexpr int kBatch = 4;

template <typename T, bool kPacked>
__global__ void __launch_bounds__(kThreads, 4) turn(Turn<T> a) {
  using L = Lanes<T, kPacked>;
  const PackedHeads& p = a.p;
  const auto half = static_cast<unsigned>(a.angles.half);
  const unsigned of_head = half / L::kSize;
  const unsigned of_row = of_head * static_cast<unsigned>(a.heads);
  const unsigned item = blockIdx.x * kThreads + threadIdx.x;
  const unsigned t = item / of_row;
  if (t >= p.T) return;
  const unsigned h = item % of_row / of_head;
  const unsigned i = item % of_head * L::kSize;
  const int64_t b0 = int64_t{blockIdx.y} * kBatch;

  L low[kBatch], high[kBatch];
#pragma unroll
  for (int b = 0; b < kBatch; ++b) {
    if (b0 + b >= p.B) continue;
    const T* x = a.x + p.q(b0 + b, t, h) + i;
    low[b] = L::load(x);
    high[b] = L::load(x + half);
  }
  float cos[L::kSize], sin[L::kSize];
  load_angles(a.angles.cos + int64_t{t} * half + i, cos);
  load_angles(a.angles.sin + int64_t{t} * half + i, sin);
  const bool turned = h < p.H + p.K;  // v is copied
#pragma unroll
  for (int b = 0; b < kBatch; ++b) {
    if (b0 + b >= p.B) continue;
    if (turned) {
#pragma unroll
      for (int k = 0; k < L::kSize; ++k) {
        const float l = to_float(low[b][k]);
        const float r = to_float(high[b][k]);
        low[b][k] = from_float<T>(l * cos[k] - r * sin[k]);
        high[b][k] = from_float<T>(r * cos[k] + l * sin[k]);
      }
    }
    T* y = a.y + p.q(b0 + b, t, h) + i;
    low[b].store(y);
    high[b].store(y + half);
  }
}

template <typename T, bool kPacked>
void launch(const Turn<T>& a, cudaStream_t stream) {
  const int64_t items = a.p.T * a.heads * (a.angles.half / Lanes<T, kPacked>::kSize);
  // An item's number is 32 bits wide: rows of one sample that were longer would not fit a device.
  if (items + kThreads > int64_t{UINT32_MAX}) {
    throw device_error("rope over {} pairs per sample is beyond what its CUDA kernel counts",
                       items);
  }
  const dim3 grid(static_cast<unsigned>(ceil_div(items, kThreads)),
                  static_cast<unsigned>(ceil_div(a.p.B, kBatch)));
  turn<T, kPacked><<<grid, kThreads, 0, stream>>>(a);
}

}  // namespace

void rope_cuda(const KernelArgs& a) {
  const PackedHeads p = packed_heads(a.in(0).shape(), a.attrs);
  auto* cos = reinterpret_cast<float*>(a.workspace.data());
  const Angles angles{cos, cos + p.T * (p.D / 2), p.T, p.D / 2};
  make_angles(a, angles);
  visit_device_float(a.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    const bool in_place = a.in(0).data == a.out(0).data;
    const Turn<T> turned{p, a.in<T>(0), a.out<T>(0),
                         static_cast<int>(in_place ? p.H + p.K : p.H + 2 * p.K), angles};
    if (packs<T>(angles.half)) {
      launch<T, true>(turned, stream_of(a));
    } else {
      launch<T, false>(turned, stream_of(a));
    }
  });
  check_launch("rope");
}

}  // namespace snug::ops

// Eight consecutive elements of an array of any float type, as one thread of an update reads and
// writes them: what one draw of noise rounds.
#pragma once

#include "kernels/cuda/kernel.cuh"
#include "ops/optimizer/stochastic.h"

namespace snug::ops {

// Which elements: `count` from `first` on, in vectors where all eight are there and aligned.
struct Eighth {
  int64_t first;
  int count;
  bool packed;

  __device__ Eighth(int64_t group, int64_t n, bool aligned)
      : first(group * 8),
        count(static_cast<int>(n - first < 8 ? (n > first ? n - first : 0) : 8)),
        packed(aligned && count == 8) {}
};

// Held as words, which cost half the registers of 2-byte elements.
template <typename T>
struct Eight {
  static constexpr int kWords = 2 * sizeof(T);
  uint32_t words[kWords];

  __device__ T at(int i) const {
    if constexpr (sizeof(T) == 4) return __uint_as_float(words[i]);
    const auto bits = static_cast<uint16_t>(words[i / 2] >> (i % 2 * 16));
    return *reinterpret_cast<const T*>(&bits);
  }
  __device__ float operator[](int i) const { return to_float(at(i)); }
  // In ascending order: the lower half of a word clears the upper one.
  __device__ void set(int i, T x) {
    if constexpr (sizeof(T) == 4) {
      words[i] = __float_as_uint(x);
    } else {
      const uint32_t bits = *reinterpret_cast<const uint16_t*>(&x);
      words[i / 2] = i % 2 == 0 ? bits : words[i / 2] | bits << 16;
    }
  }

  // Elements that are not there become 0.
  __device__ void load(const T* from, const Eighth& where) {
    from += where.first;
    if (where.packed) {
#pragma unroll
      for (int w = 0; w < kWords; w += 4) {
        const uint4 raw = __ldcs(reinterpret_cast<const uint4*>(from) + w / 4);
        words[w] = raw.x, words[w + 1] = raw.y, words[w + 2] = raw.z, words[w + 3] = raw.w;
      }
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i) set(i, i < where.count ? from[i] : from_float<T>(0));
    }
  }
  __device__ void store(T* to, const Eighth& where) const {
    to += where.first;
    if (where.packed) {
#pragma unroll
      for (int w = 0; w < kWords; w += 4)
        reinterpret_cast<uint4*>(to)[w / 4] =
            make_uint4(words[w], words[w + 1], words[w + 2], words[w + 3]);
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i)
        if (i < where.count) to[i] = at(i);
    }
  }
};

// The noise of eight elements, as rounding_noise gives it.
struct Noise {
  uint32_t words[4];

  __device__ Noise(Key key, uint64_t stream, uint64_t group) {
    static_assert(kPerDraw == 8);
    const auto four = philox(key, group, stream);
#pragma unroll
    for (int w = 0; w < 4; ++w) words[w] = four[w];
  }
  __device__ uint32_t operator[](int i) const {
    return i < 4 ? words[i] & 0xFFFF : words[i - 4] >> 16;
  }
};

__device__ inline __nv_bfloat16 round_device(float x, uint32_t noise, __nv_bfloat16) {
  return __ushort_as_bfloat16(bf16_bits_with(
      x, noise, [](float y) { return __bfloat16_as_ushort(__float2bfloat16_rn(y)); }));
}
__device__ inline __half round_device(float x, uint32_t noise, __half) {
  return __ushort_as_half(
      f16_bits_with(x, noise, [](float y) { return __half_as_ushort(__float2half_rn(y)); }));
}

// Where all eight are within bf16's finite numbers, the upper halves after the noise are the
// result: 2.5 instructions per element instead of 8.
__device__ inline bool round_ordinary(const float (&x)[8], const Noise& noise,
                                      Eight<__nv_bfloat16>& to) {
  bool ordinary = true;
#pragma unroll
  for (int i = 0; i < 8; ++i) ordinary &= fabsf(x[i]) < 0x1.FEp127F;
  if (!ordinary) return false;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    to.words[i] = __byte_perm(__float_as_uint(x[2 * i]) + noise[2 * i],
                              __float_as_uint(x[2 * i + 1]) + noise[2 * i + 1], 0x7632);
  return true;
}

// x as T, rounded to nearest.
template <typename T>
__device__ Eight<T> nearest(const float (&x)[8]) {
  Eight<T> to;
#pragma unroll
  for (int i = 0; i < 8; ++i) to.set(i, from_float<T>(x[i]));
  return to;
}

// x as T, rounded with the noise of `stream` where T has 2 bytes.
template <typename T>
__device__ Eight<T> rounded(const float (&x)[8], Key key, uint64_t stream, int64_t group) {
  Eight<T> to;
  if constexpr (std::is_same_v<T, float>) {
#pragma unroll
    for (int i = 0; i < 8; ++i) to.set(i, x[i]);
  } else {
    const Noise noise(key, stream, static_cast<uint64_t>(group));
    if constexpr (std::is_same_v<T, __nv_bfloat16>)
      if (round_ordinary(x, noise, to)) return to;
#pragma unroll
    for (int i = 0; i < 8; ++i) to.set(i, round_device(x[i], noise[i], T{}));
  }
  return to;
}

}  // namespace snug::ops

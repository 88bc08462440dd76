#include "ops/rotary/rope_cpu.h"

#include <algorithm>
#include <cmath>

#include "kernels/float_kernels.h"
#include "ops/attention/packed_heads.h"
#include "ops/packed_rows.h"
#include "ops/rotary/rope_frequency.h"

namespace snug::ops {
namespace {

// Turns one head by the angles of one position. y may be x.
template <typename T>
void turn(const T* x, const float* cos, const float* sin, int64_t half, T* y) {
#pragma omp simd
  for (int64_t i = 0; i < half; ++i) {
    const float low = x[i];
    const float high = x[i + half];
    store(y[i], low * cos[i] - high * sin[i]);
    store(y[i + half], high * cos[i] + low * sin[i]);
  }
}

// Where starts are below 0, all tokens continue a sample after equally many others: no position is
// before that of the first token.
int64_t first_position(const int32_t* starts) {
  return starts != nullptr && starts[0] < 0 ? -int64_t{starts[0]} : 0;
}

template <typename T>
void rope(const KernelArgs& a) {
  const PackedHeads p = packed_heads(a.in(0).shape(), a.attrs);
  const int64_t R = rotary_dim(a.attrs), half = R / 2;
  const T* qkv = a.in<T>(0);                 // [B, T, (H+2K)*D]
  const int32_t* starts = a.in<int32_t>(1);  // [B, T] or absent
  T* y = a.out<T>(0);                        // the same, may be qkv
  const int64_t first = first_position(starts);
  auto* cos = reinterpret_cast<float*>(a.workspace.data());  // [T, R/2], from position `first` on
  float* sin = cos + p.T * half;                             // [T, R/2]
  const double direction = a.attrs.b("inverse", false) ? -1 : 1;
#pragma omp parallel
  {
#pragma omp for schedule(static)
    for (int64_t i = 0; i < half; ++i) {
      const double frequency = rope_frequency(i, a.attrs);
      for (int64_t t = 0; t < p.T; ++t) {
        const double angle = static_cast<double>(first + t) * frequency;
        cos[t * half + i] = static_cast<float>(std::cos(angle));
        sin[t * half + i] = static_cast<float>(direction * std::sin(angle));
      }
    }
#pragma omp for schedule(static)
    for (int64_t row = 0; row < p.B * p.T; ++row) {
      const int64_t angles = (position_in_sample(starts, row, p.T) - first) * half;
      const T* x = qkv + row * p.width();
      T* out = y + row * p.width();
      for (int64_t h = 0; h < p.H + p.K; ++h) {
        const T* head = x + h * p.D;
        turn(head, cos + angles, sin + angles, half, out + h * p.D);
        if (out != x) std::copy(head + R, head + p.D, out + h * p.D + R);
      }
      const int64_t v = (p.H + p.K) * p.D;
      if (out != x) std::copy(x + v, x + p.width(), out + v);
    }
  }
}

}  // namespace

void rope_cpu(const KernelArgs& a) {
  visit_float(a.in(0).type->dtype, [&](auto zero) { rope<decltype(zero)>(a); });
}

}  // namespace snug::ops

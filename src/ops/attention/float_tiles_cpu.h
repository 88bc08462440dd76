// Tiles of f32, bf16 and f16 arrays as the floats that matmuls work on: f32 is read and written
// in place, halves pass through a buffer on the stack.
#pragma once

#include <type_traits>

#include "kernels/float_kernels.h"
#include "ops/attention/attention_cpu.h"

namespace snug::ops {

template <typename T>
constexpr bool kIsFloat = std::is_same_v<T, float>;

// Rows of floats to read, and rows that sums are made in; `ld` apart.
struct Floats {
  const float* at = nullptr;
  int64_t ld = 0;
};
struct Sums {
  float* at = nullptr;
  int64_t ld = 0;
};

template <typename T>
void widen(const T* from, int64_t n, float* to) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i]);
}

template <typename T>
void narrow(const float* from, int64_t n, T* to) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(to[i], from[i]);
}

// Up to kTile rows of one head, to read. What it gives is good until the next call.
template <typename T>
class WideTile {
 public:
  Floats of(const T* from, int64_t rows, int64_t D, int64_t stride) {
    for (int64_t r = 0; r < rows; ++r) widen(from + r * stride, D, wide_ + r * D);
    return {wide_, D};
  }

 private:
  alignas(64) float wide_[kTile * kMaxHeadDim];
};

template <>  // of any number of rows
class WideTile<float> {
 public:
  static Floats of(const float* from, int64_t, int64_t, int64_t stride) { return {from, stride}; }
};

// Up to kTile rows of one head in which sums are made; `store` rounds them to where they belong.
template <typename T>
class SumTile {
 public:
  SumTile(T* to, int64_t stride) : to_(to), stride_(stride) {}
  Sums sums() { return {sums_, kMaxHeadDim}; }
  void store(int64_t rows, int64_t D) const {
    for (int64_t r = 0; r < rows; ++r) narrow(sums_ + r * kMaxHeadDim, D, to_ + r * stride_);
  }

 private:
  T* to_;
  int64_t stride_;
  alignas(64) float sums_[kTile * kMaxHeadDim];
};

template <>
class SumTile<float> {
 public:
  SumTile(float* to, int64_t stride) : to_(to), stride_(stride) {}
  Sums sums() const { return {to_, stride_}; }
  void store(int64_t, int64_t) const {}

 private:
  float* to_;
  int64_t stride_;
};

}  // namespace snug::ops

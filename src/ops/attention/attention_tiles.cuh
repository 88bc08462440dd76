// What our own attention kernels are made of: tiles of heads in shared memory, in f32, and two
// matmuls of them. 256 threads form a square of 16: thread (x, y) holds rows y, y + 16, ... of a
// result, of scores its columns x, x + 16, ..., of a head four columns from 4x, then from
// 4x + 64, ... Every sum has one order, so the bits are the same in every run.
//
// Of the flash kind used only where cuDNN (attention_cudnn.h) and the tensor cores
// (attention_mma.cuh) do not serve; of the standard kind always.
#pragma once

#include "kernels/cuda/kernel.cuh"
#include "ops/attention/attention_dropout.cuh"
#include "ops/attention/packed_heads.h"
#include "ops/attention/tile_task.cuh"

namespace snug::ops {

constexpr int kSide = 16;
constexpr int kTileThreads = kSide * kSide;

__device__ inline int thread_x() { return static_cast<int>(threadIdx.x) % kSide; }
__device__ inline int thread_y() { return static_cast<int>(threadIdx.x) / kSide; }

// Up to kRows rows of a head of up to kD elements. Rows are four floats longer: eight threads that
// read 16 bytes of eight rows then meet no bank twice.
template <int kRows, int kD>
struct HeadTile {
  static constexpr int kLd = kD + 4;
  static constexpr int kFloats = kRows * kLd;
  float* at;

  // Zeros where there is no row or no element.
  template <typename T>
  __device__ void load(const T* from, int64_t stride, int64_t rows, int64_t D) const {
    for (int e = static_cast<int>(threadIdx.x); e < kRows * kD; e += kTileThreads) {
      const int r = e / kD;
      const int d = e % kD;
      at[r * kLd + d] = r < rows && d < D ? to_float(from[r * stride + d]) : 0.0F;
    }
  }
  __device__ float4 four(int row, int d) const {
    return *reinterpret_cast<const float4*>(at + row * kLd + d);
  }
};

// Scores of kTile rows against kTile columns.
template <int kTile>
struct ScoreTile {
  static constexpr int kLd = kTile + 4;
  static constexpr int kFloats = kTile * kLd;
  static constexpr int kM = kTile / kSide;
  float* at;

  __device__ void store(const float (&scores)[kM][kM]) const {
#pragma unroll
    for (int i = 0; i < kM; ++i) {
#pragma unroll
      for (int j = 0; j < kM; ++j)
        at[(thread_y() + kSide * i) * kLd + thread_x() + kSide * j] = scores[i][j];
    }
  }
  __device__ float4 four(int row, int column) const {
    return *reinterpret_cast<const float4*>(at + row * kLd + column);
  }
};

// scores = a b^T
template <int kTile, int kD>
__device__ void multiply(const HeadTile<kTile, kD>& a, const HeadTile<kTile, kD>& b,
                         float (&scores)[kTile / kSide][kTile / kSide]) {
  constexpr int kM = kTile / kSide;
#pragma unroll
  for (int i = 0; i < kM; ++i) {
#pragma unroll
    for (int j = 0; j < kM; ++j) scores[i][j] = 0;
  }
#pragma unroll 4
  for (int d = 0; d < kD; d += 4) {
    float4 row[kM];
#pragma unroll
    for (int i = 0; i < kM; ++i) row[i] = a.four(thread_y() + kSide * i, d);
#pragma unroll
    for (int j = 0; j < kM; ++j) {
      const float4 column = b.four(thread_x() + kSide * j, d);
#pragma unroll
      for (int i = 0; i < kM; ++i) {
        scores[i][j] = fmaf(row[i].x, column.x, scores[i][j]);
        scores[i][j] = fmaf(row[i].y, column.y, scores[i][j]);
        scores[i][j] = fmaf(row[i].z, column.z, scores[i][j]);
        scores[i][j] = fmaf(row[i].w, column.w, scores[i][j]);
      }
    }
  }
}

// What a thread holds of kTile rows of a head.
template <int kTile, int kD>
struct HeadSums {
  static constexpr int kM = kTile / kSide;
  static constexpr int kFours = kD / 4 / kSide;
  float4 at[kM][kFours] = {};

  __device__ void scale(int i, float factor) {
#pragma unroll
    for (int c = 0; c < kFours; ++c) {
      float4& s = at[i][c];
      s = {s.x * factor, s.y * factor, s.z * factor, s.w * factor};
    }
  }

  // += weights b
  __device__ void add(const ScoreTile<kTile>& weights, const HeadTile<kTile, kD>& b) {
#pragma unroll 2
    for (int k = 0; k < kTile; k += 4) {
      float w[kM][4];
#pragma unroll
      for (int i = 0; i < kM; ++i) {
        const float4 four = weights.four(thread_y() + kSide * i, k);
        w[i][0] = four.x, w[i][1] = four.y, w[i][2] = four.z, w[i][3] = four.w;
      }
#pragma unroll
      for (int l = 0; l < 4; ++l) {
#pragma unroll
        for (int c = 0; c < kFours; ++c) {
          const float4 row = b.four(k + l, 4 * (thread_x() + kSide * c));
#pragma unroll
          for (int i = 0; i < kM; ++i) {
            float4& s = at[i][c];
            s.x = fmaf(w[i][l], row.x, s.x);
            s.y = fmaf(w[i][l], row.y, s.y);
            s.z = fmaf(w[i][l], row.z, s.z);
            s.w = fmaf(w[i][l], row.w, s.w);
          }
        }
      }
    }
  }

  template <typename T>
  __device__ void store(T* to, int64_t stride, int64_t rows, int64_t D) const {
#pragma unroll
    for (int i = 0; i < kM; ++i) {
      const int r = thread_y() + kSide * i;
      if (r >= rows) continue;
#pragma unroll
      for (int c = 0; c < kFours; ++c) {
        const float four[] = {at[i][c].x, at[i][c].y, at[i][c].z, at[i][c].w};
#pragma unroll
        for (int l = 0; l < 4; ++l) {
          const int d = 4 * (thread_x() + kSide * c) + l;
          if (d < D) to[r * stride + d] = from_float<T>(four[l]);
        }
      }
    }
  }
};

// Over the 16 threads that hold a row.
__device__ inline float row_sum(float x) {
#pragma unroll
  for (int offset = kSide / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(~0U, x, offset);
  return x;
}
__device__ inline float row_max(float x) {
#pragma unroll
  for (int offset = kSide / 2; offset > 0; offset /= 2)
    x = fmaxf(x, __shfl_xor_sync(~0U, x, offset));
  return x;
}

// fn(std::integral_constant<int, kD>) with the smallest width that holds heads of D elements.
template <typename Fn>
void visit_head_dim(int64_t D, Fn&& fn) {
  if (D <= 64) return fn(std::integral_constant<int, 64>{});
  if (D <= 128) return fn(std::integral_constant<int, 128>{});
  fn(std::integral_constant<int, 256>{});
}

}  // namespace snug::ops

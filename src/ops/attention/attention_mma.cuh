// What attention on tensor cores is made of: tiles of heads in shared memory, the pieces of them
// that a warp's matrix instructions take, and dropout's masks as a thread needs them. For halves
// of either type, from Ampere on.
//
// A warp multiplies 16 x 16 by 16 x 8. Lane l = 4 g + t holds, of a 16 x 8 result, columns 2t and
// 2t + 1 of rows g and g + 8; two such results side by side are the left operand of the next
// matmul, 16 x 16, without a move. Masks are drawn for four neighbouring keys at once, so shared
// memory holds keys in an order that gives each lane four neighbours: KeyColumns where keys are
// columns of the scores, KeyRows where they are rows. Sums over keys do not depend on it.
#pragma once

#include "kernels/cuda/copies.cuh"
#include "ops/attention/attention_dropout.cuh"
#include "ops/attention/packed_heads.h"
#include "ops/attention/tile_task.cuh"

namespace snug::ops {

constexpr int kMmaWarps = 4;
constexpr int kMmaThreads = 32 * kMmaWarps;

__device__ inline int lane() { return static_cast<int>(threadIdx.x) % 32; }
__device__ inline int warp() { return static_cast<int>(threadIdx.x) / 32; }
__device__ inline int lane_row() { return lane() / 4; }     // g
__device__ inline int lane_column() { return lane() % 4; }  // t

// --- instructions --------------------------------------------------------------------------------

// Four 8 x 8 matrices of halves; lane l names row l % 8 of matrix l / 8.
__device__ inline void load_matrices(uint32_t (&to)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address));
}
__device__ inline void load_transposed(uint32_t (&to)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address));
}

// sum += a b
template <typename T>
__device__ void multiply_add(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (std::is_same_v<T, __half>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

template <typename T>
__device__ uint32_t packed(float low, float high) {
  Vector<T, 2> two;
  two.set(0, low);
  two.set(1, high);
  return *reinterpret_cast<const uint32_t*>(&two);
}

// Two 16 x 8 results side by side, rounded, as a left operand.
template <typename T>
__device__ void as_operand(uint32_t (&to)[4], const float (&left)[4], const float (&right)[4]) {
  to[0] = packed<T>(left[0], left[1]);
  to[1] = packed<T>(left[2], left[3]);
  to[2] = packed<T>(right[0], right[1]);
  to[3] = packed<T>(right[2], right[3]);
}

// --- the order of keys ---------------------------------------------------------------------------

struct InOrder {
  __device__ static int place(int row) { return row; }
};

// Keys as columns: of 16 keys lane column t holds 4t .. 4t + 3, two in each of two results.
struct KeyColumns {
  __device__ static int place(int key) {
    const int four = key % 16 / 4, in_four = key % 4;
    return key / 16 * 16 + 8 * (in_four / 2) + 2 * four + in_four % 2;
  }
};

// Keys as rows of kResults results below each other: lane row g holds 2 kResults neighbours.
template <int kResults>
struct KeyRows {
  static constexpr int kEach = 2 * kResults;
  __device__ static int place(int key) {
    const int of_warp = key % (8 * kEach);
    return key / (8 * kEach) * (8 * kEach) + 8 * (of_warp % kEach) + of_warp / kEach;
  }
};

// --- tiles ---------------------------------------------------------------------------------------

// Rows of a head of up to kD elements. The 16-byte packs of a row are exchanged by its number, so
// that eight rows' packs of one column meet no bank twice.
template <typename T, int kRows, int kD>
struct MmaTile {
  static constexpr int kPacks = kD / 8;
  static constexpr int kBytes = kRows * kD * 2;
  uint32_t at;

  __device__ uint32_t address(int row, int pack) const {
    return at + static_cast<uint32_t>((row * kPacks + (pack ^ (row % 8))) * 16);
  }

  // Starts to copy rows, zeros where there is no row or no element; row r goes to Order::place(r).
  template <typename Order>
  __device__ void start_load(const T* from, int stride, int rows, int D) const {
    const bool whole_packs = D % 8 == 0;
#pragma unroll 2
    for (int e = static_cast<int>(threadIdx.x); e < kRows * kPacks; e += kMmaThreads) {
      const int row = e / kPacks, pack = e % kPacks;
      const uint32_t to = address(Order::place(row), pack);
      const T* source = from + static_cast<int64_t>(row) * stride + 8 * pack;
      if (whole_packs) {
        const bool there = row < rows && 8 * pack < D;
        const int bytes = there ? 16 : 0;  // the rest becomes zeros
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to),
                     "l"(there ? source : from), "r"(bytes)
                     : "memory");
      } else {
        uint32_t words[4];
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          const int d = 8 * pack + 2 * w;
          const float low = row < rows && d < D ? to_float(source[2 * w]) : 0.0F;
          const float high = row < rows && d + 1 < D ? to_float(source[2 * w + 1]) : 0.0F;
          words[w] = packed<T>(low, high);
        }
        asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(words[0]),
                     "r"(words[1]), "r"(words[2]), "r"(words[3])
                     : "memory");
      }
    }
  }

  // 16 rows from `row` and 16 columns from 16 `step`, as a left operand.
  __device__ void left(uint32_t (&to)[4], int row, int step) const {
    load_matrices(to, address(row + lane() % 16, 2 * step + lane() / 16));
  }
  // The same as the right operands of x y^T, 8 rows in [0] and [1], the next 8 in [2] and [3].
  __device__ void right(uint32_t (&to)[4], int row, int step) const {
    load_matrices(to, address(row + lane() % 8 + lane() / 16 * 8, 2 * step + lane() / 8 % 2));
  }
  // As the right operands of w y: 16 rows are summed over, columns 16 `step` and the 8 behind them.
  __device__ void right_of_sum(uint32_t (&to)[4], int row, int step) const {
    load_transposed(to, address(row + lane() % 16, 2 * step + lane() / 16));
  }
};

// Sums of 16 rows of a head.
template <typename T, int kD>
struct MmaSums {
  float at[kD / 8][4] = {};

  // Row g, or with `half` = 1 row g + 8, times `factor`.
  __device__ void scale(int half, float factor) {
#pragma unroll
    for (int c = 0; c < kD / 8; ++c) at[c][2 * half] *= factor, at[c][2 * half + 1] *= factor;
  }

  __device__ void store(int half, T* to, int D) const {
#pragma unroll
    for (int c = 0; c < kD / 8; ++c) {
      const int d = 8 * c + 2 * lane_column();
      const float low = at[c][2 * half], high = at[c][2 * half + 1];
      if (D % 8 == 0) {
        if (d < D) *reinterpret_cast<uint32_t*>(to + d) = packed<T>(low, high);
      } else {
        if (d < D) to[d] = from_float<T>(low);
        if (d + 1 < D) to[d + 1] = from_float<T>(high);
      }
    }
  }
};

// sums += weights rows, of the 16 rows of `tile` from `row`
template <typename T, int kResults, int kD, typename Tile>
__device__ void add_products(MmaSums<T, kD> (&sums)[kResults],
                             const uint32_t (&weights)[kResults][4], const Tile& tile, int row) {
#pragma unroll
  for (int step = 0; step < kD / 16; ++step) {
    uint32_t right[4];
    tile.right_of_sum(right, row, step);
#pragma unroll
    for (int m = 0; m < kResults; ++m) {
      multiply_add<T>(sums[m].at[2 * step], weights[m], right[0], right[1]);
      multiply_add<T>(sums[m].at[2 * step + 1], weights[m], right[2], right[3]);
    }
  }
}

// --- masks ---------------------------------------------------------------------------------------

// Which of the elements are kept that a lane holds of kRows rows, four neighbours in each.
template <int kRows>
struct Kept {
  uint32_t words[ceil_div(kRows, 8)] = {};

  __device__ void set(int row, uint32_t four) { words[row / 8] |= four << (4 * (row % 8)); }
  __device__ bool at(int row, int element) const {
    return (words[row / 8] >> (4 * (row % 8) + element) & 1) != 0;
  }
};

// Bit l: is element 4 `four` + l kept?
__device__ inline uint32_t kept_of_four(const DropoutFactors& dropout, uint64_t four) {
  const auto drawn = philox(dropout.key, four, dropout.stream);
  uint32_t bits = 0;
#pragma unroll
  for (int l = 0; l < 4; ++l) bits |= drawn[l] >= dropout.threshold ? 1U << l : 0U;
  return bits;
}

// Elements from element_of(row) on: one draw for a row where those are whole fours, else two.
template <int kRows, typename Fn>
__device__ Kept<kRows> kept(const DropoutFactors& dropout, bool whole_fours, Fn&& element_of) {
  Kept<kRows> kept;
  if (whole_fours) {
#pragma unroll
    for (int row = 0; row < kRows; ++row) kept.set(row, kept_of_four(dropout, element_of(row) / 4));
  } else {
#pragma unroll 1
    for (int row = 0; row < kRows; ++row) {
      const uint64_t element = element_of(row);
      const uint32_t eight =
          kept_of_four(dropout, element / 4) | kept_of_four(dropout, element / 4 + 1) << 4;
      const uint32_t four = eight >> (element % 4) & 15;
#pragma unroll
      for (int at = 0; at < kRows; ++at) {  // an index known only now would need memory
        if (at == row) kept.set(at, four);
      }
    }
  }
  return kept;
}

// --- the shape -----------------------------------------------------------------------------------

// The shape as a kernel counts with it: a token's number and a row's width fit 31 bits.
struct HeadShape {
  int T, D, width, y_width;

  __device__ explicit HeadShape(const PackedHeads& p)
      : T(static_cast<int>(p.T)),
        D(static_cast<int>(p.D)),
        width(static_cast<int>(p.width())),
        y_width(static_cast<int>(p.H * p.D)) {}
};

// --- scores --------------------------------------------------------------------------------------

constexpr float kLog2e = 1.4426950408889634F;

__device__ inline float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// fn(T{}) with the device's type for a half.
template <typename Fn>
void visit_device_half(Dtype dtype, Fn&& fn) {
  if (dtype == Dtype::bf16) return fn(__nv_bfloat16{});
  if (dtype == Dtype::f16) return fn(__half{});
  throw internal_error("{} is no half", name_of(dtype));
}

// fn(std::integral_constant<int, kD>) with the smallest width that holds heads of D elements.
template <typename Fn>
void visit_mma_head_dim(int64_t D, Fn&& fn) {
  if (D <= 64) return fn(std::integral_constant<int, 64>{});
  fn(std::integral_constant<int, 128>{});
}

// Results of 16 rows that a warp holds below each other: wide heads leave registers for one. More
// blocks with fewer rows each are no faster: the number of instructions bounds these kernels.
template <int kD>
constexpr int kMmaResults = kD <= 64 ? 2 : 1;
// Rows of queries, or of keys, that a block owns; and of what it walks over at a time.
template <int kD>
constexpr int kMmaOwned = 16 * kMmaWarps* kMmaResults<kD>;
constexpr int kMmaWalked = 64;

// kernel<<<...>>>(f), one block per task.
template <typename F>
void launch_mma(void (*kernel)(F), int64_t tasks, int bytes, const KernelArgs& a, const F& f) {
  cuda::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
              "asking for {} bytes of shared memory for attention", bytes);
  kernel<<<static_cast<unsigned>(tasks), kMmaThreads, static_cast<size_t>(bytes), stream_of(a)>>>(
      f);
  check_launch("attention");
}

}  // namespace snug::ops

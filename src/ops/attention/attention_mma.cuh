// What attention on tensor cores is made of: tiles of heads in shared memory, the pieces of them
// that a warp's matrix instructions take, and dropout's masks as a thread needs them. For halves
// of either type, and for floats rounded to tf32; from Ampere on.
//
// A warp multiplies 16 x 32 bytes by 32 bytes x 8. Lane l = 4 g + t holds, of a 16 x 8 result,
// columns 2t and 2t + 1 of rows g and g + 8; such results are the left operand of the next matmul
// without a move. Masks are drawn for eight neighbouring keys at once, so shared memory holds keys
// in an order that gives each lane neighbours: KeyColumns where keys are columns of the scores,
// KeyRows where they are rows. Sums over keys do not depend on it.
//
// Every shape fits the shared memory that a block has on all of these GPUs.
#pragma once

#include "kernels/cuda/copies.cuh"
#include "ops/attention/attention_dropout.cuh"
#include "ops/attention/packed_heads.h"
#include "ops/attention/tile_task.cuh"

namespace snug::ops {

constexpr int kMmaWarps = 4;
constexpr int kMmaThreads = 32 * kMmaWarps;
constexpr int kSharedEverywhere = 99 * 1024;  // bytes of a block

__device__ inline int lane() { return static_cast<int>(threadIdx.x) % 32; }
__device__ inline int warp() { return static_cast<int>(threadIdx.x) / 32; }
__device__ inline int lane_row() { return lane() / 4; }     // g
__device__ inline int lane_column() { return lane() % 4; }  // t

// How heads of up to kD elements are cut.
template <typename T, int kD>
struct MmaShape {
  static constexpr int kRowBytes = kD * static_cast<int>(sizeof(T));
  static constexpr int kSteps = kRowBytes / 32;  // matrix instructions along a row
  // Results of 16 rows that a warp holds below each other: wide heads leave registers for one. More
  // blocks with fewer rows each are no faster: the number of instructions bounds these kernels.
  static constexpr int kResults = kRowBytes <= 128 ? 2 : 1;
  // Rows of queries, or of keys, that a block owns; and of what it walks over at a time.
  static constexpr int kOwned = 16 * kMmaWarps * kResults;
  static constexpr int kWalked = kRowBytes <= 256 ? 64 : 32;
  static constexpr int kGradBuffers = kRowBytes <= 256 ? 2 : 1;
  static constexpr bool kHoldsOwned = kRowBytes <= 256;  // in backward, in registers
  // Columns of the results that a block makes: those of wider heads are made by several blocks,
  // each of which computes all scores.
  static constexpr int kPart = kD <= 128 ? kD : 128;
  static constexpr int kParts = kD / kPart;
};

// --- instructions --------------------------------------------------------------------------------

// Four 8 x 8 matrices of halves, or 8 x 4 of floats; lane l names row l % 8 of matrix l / 8.
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
__device__ inline uint32_t load_word(uint32_t address) {
  uint32_t word;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(address));
  return word;
}

// sum += a b
template <typename T>
__device__ void multiply_add(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (std::is_same_v<T, __half>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

__device__ inline uint32_t as_tf32(float x) {
  uint32_t word;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(x));
  return word;
}

// An operand that came from shared memory as it was copied there.
template <typename T>
__device__ void round_operand(uint32_t (&operand)[4]) {
  if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (uint32_t& word : operand) word = as_tf32(__uint_as_float(word));
  }
}

template <typename T>
__device__ uint32_t packed(float low, float high) {
  Vector<T, 2> two;
  two.set(0, low);
  two.set(1, high);
  return *reinterpret_cast<const uint32_t*>(&two);
}

// Two 16 x 8 results side by side, rounded, as left operands: one of halves, two of floats, whose
// columns are in the order 0, 2, 4, 6, 1, 3, 5, 7.
template <typename T>
struct MmaWeights {
  static constexpr int kOperands = static_cast<int>(sizeof(T)) / 2;
  uint32_t words[kOperands][4];

  __device__ void set(const float (&left)[4], const float (&right)[4]) {
    if constexpr (kOperands == 1) {
      words[0][0] = packed<T>(left[0], left[1]);
      words[0][1] = packed<T>(left[2], left[3]);
      words[0][2] = packed<T>(right[0], right[1]);
      words[0][3] = packed<T>(right[2], right[3]);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        words[0][i] = as_tf32(left[i % 2 * 2 + i / 2]);
        words[1][i] = as_tf32(right[i % 2 * 2 + i / 2]);
      }
    }
  }
};

// --- the order of keys ---------------------------------------------------------------------------

struct InOrder {
  __device__ static int place(int row) { return row; }
};

// Keys as columns: of 32 keys lane column t holds 8t .. 8t + 7, two in each of four results.
struct KeyColumns {
  __device__ static int place(int key) {
    const int eight = key % 32 / 8, in_eight = key % 8;
    return key / 32 * 32 + 8 * (in_eight / 2) + 2 * eight + in_eight % 2;
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
// that eight rows' packs of one column meet no bank twice. A tile starts at a multiple of a row's
// bytes, so what picks a pack is a single exclusive or.
template <typename T, int kRows, int kD>
struct MmaTile {
  static constexpr int kPack = 16 / static_cast<int>(sizeof(T));
  static constexpr int kPacks = kD / kPack;
  static constexpr int kRowBytes = kPacks * 16;
  static constexpr int kBytes = kRows * kRowBytes;
  uint32_t at;

  // Of pack `lane_pack` ^ `pack` of row `lane_row` + `row`, the latter a multiple of 8: what is the
  // lane's own comes first, what is known when this is compiled last.
  __device__ uint32_t address(int lane_row, int lane_pack, int row, int pack) const {
    const uint32_t own = (at + static_cast<uint32_t>(lane_row * kRowBytes)) ^
                         static_cast<uint32_t>((lane_row % 8 ^ lane_pack) * 16);
    return (own ^ static_cast<uint32_t>(pack * 16)) + static_cast<uint32_t>(row * kRowBytes);
  }
  __device__ uint32_t address(int row, int pack) const { return address(row, pack, 0, 0); }

  // Starts to copy rows, zeros where there is no row or no element; row r goes to Order::place(r).
  template <typename Order>
  __device__ void start_load(const T* from, int stride, int rows, int D) const {
    const bool whole_packs = D % kPack == 0;
#pragma unroll 2
    for (int e = static_cast<int>(threadIdx.x); e < kRows * kPacks; e += kMmaThreads) {
      const int row = e / kPacks, pack = e % kPacks;
      const uint32_t to = address(Order::place(row), pack);
      const T* source = from + static_cast<int64_t>(row) * stride + kPack * pack;
      if (whole_packs) {
        const bool there = row < rows && kPack * pack < D;
        const int bytes = there ? 16 : 0;  // the rest becomes zeros
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to),
                     "l"(there ? source : from), "r"(bytes)
                     : "memory");
      } else {
        Vector<T> some;
#pragma unroll
        for (int i = 0; i < kPack; ++i)
          some.set(i, row < rows && kPack * pack + i < D ? to_float(source[i]) : 0.0F);
        const auto words = *reinterpret_cast<const uint4*>(&some);
        asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(words.x), "r"(words.y),
                     "r"(words.z), "r"(words.w)
                     : "memory");
      }
    }
  }
  // Rounds floats to tf32, in any order of rows. By the thread that copied them: after wait_batches
  // and before others read.
  template <typename Order>
  __device__ void round() const {
    if constexpr (sizeof(T) == 4) {
#pragma unroll 2
      for (int e = static_cast<int>(threadIdx.x); e < kRows * kPacks; e += kMmaThreads) {
        const uint32_t pack = address(Order::place(e / kPacks), e % kPacks);
        float x[4];
        asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
                     : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
                     : "r"(pack));
        asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(pack), "r"(as_tf32(x[0])),
                     "r"(as_tf32(x[1])), "r"(as_tf32(x[2])), "r"(as_tf32(x[3]))
                     : "memory");
      }
    }
  }

  // 16 rows from `row` and 32 bytes of columns from 32 `step`, as a left operand.
  __device__ void left(uint32_t (&to)[4], int row, int step) const {
    load_matrices(to, address(lane() % 16, lane() / 16, row, 2 * step));
  }
  // The same as the right operands of x y^T, 8 rows in [0] and [1], the next 8 in [2] and [3].
  __device__ void right(uint32_t (&to)[4], int row, int step) const {
    load_matrices(to, address(lane() % 8 + lane() / 16 * 8, lane() / 8 % 2, row, 2 * step));
  }
  // As the right operands of w y, columns 16 `sixteen` and the next 8: the rows that operand
  // `operand` of MmaWeights is over, from `row` on.
  __device__ void right_of_sum(uint32_t (&to)[4], int row, int operand, int sixteen) const {
    if constexpr (sizeof(T) == 2) {
      load_transposed(to, address(lane() % 16, lane() / 16, row, 2 * sixteen));
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32_t pack = address(2 * lane_column() + i % 2, lane_row() / 4, row + 8 * operand,
                                      4 * sixteen + i / 2 * 2);
        to[i] = load_word(pack + static_cast<uint32_t>(lane_row() % 4 * 4));
      }
    }
  }
};

// Sums of 16 rows of kD columns.
template <typename T, int kD>
struct MmaSums {
  float at[kD / 8][4] = {};

  // Row g, or with `half` = 1 row g + 8, times `factor`.
  __device__ void scale(int half, float factor) {
#pragma unroll
    for (int c = 0; c < kD / 8; ++c) at[c][2 * half] *= factor, at[c][2 * half + 1] *= factor;
  }

  // The first D of the columns.
  __device__ void store(int half, T* to, int D) const {
#pragma unroll
    for (int c = 0; c < kD / 8; ++c) {
      const int d = 8 * c + 2 * lane_column();
      Vector<T, 2> two;
      two.set(0, at[c][2 * half]);
      two.set(1, at[c][2 * half + 1]);
      if (D % 2 == 0) {
        if (d < D) two.store(to + d);
      } else {
        if (d < D) to[d] = two.v[0];
        if (d + 1 < D) to[d + 1] = two.v[1];
      }
    }
  }
};

// sums += weights rows, of the 16 rows of `tile` from `row`, its columns from `column` on
template <typename T, int kResults, int kD, typename Tile>
__device__ void add_products(MmaSums<T, kD> (&sums)[kResults],
                             const MmaWeights<T> (&weights)[kResults], const Tile& tile, int row,
                             int column) {
#pragma unroll
  for (int step = 0; step < kD / 16; ++step) {
#pragma unroll
    for (int operand = 0; operand < MmaWeights<T>::kOperands; ++operand) {
      uint32_t right[4];
      tile.right_of_sum(right, row, operand, column / 16 + step);
#pragma unroll
      for (int m = 0; m < kResults; ++m) {
        multiply_add<T>(sums[m].at[2 * step], weights[m].words[operand], right[0], right[1]);
        multiply_add<T>(sums[m].at[2 * step + 1], weights[m].words[operand], right[2], right[3]);
      }
    }
  }
}

// Walks over `count` pieces: load(n, buffer) starts to copy one, round(buffer) ends it, use(n,
// buffer) reads it. With two buffers one is copied while the other is read.
template <int kBuffers, typename Load, typename Round, typename Use>
__device__ void walk(int count, Load&& load, Round&& round, Use&& use) {
  if constexpr (kBuffers == 2) load(0, 0);
  int buffer = 0;
  for (int n = 0; n < count; ++n, buffer ^= kBuffers - 1) {
    if constexpr (kBuffers == 1) load(n, 0);
    if (kBuffers == 2 && n + 1 < count) {
      load(n + 1, buffer ^ 1);
      wait_batches<1>();
    } else {
      wait_batches<0>();
    }
    round(buffer);
    __syncthreads();
    use(n, buffer);
    __syncthreads();  // this buffer is read
  }
}

// --- masks ---------------------------------------------------------------------------------------

// Eight neighbours from `element` on. `whole`: it is a multiple of 8, and so are all others here.
__device__ inline MaskBits mask_from(const DropoutFactors& dropout, uint64_t element, bool whole) {
  element += static_cast<uint64_t>(dropout.first);  // of whole heads: it changes `whole` for none
  MaskBits bits(dropout.key, element / 8, dropout.stream);
  if (!whole) {
    const MaskBits next(dropout.key, element / 8 + 1, dropout.stream);
    uint32_t words[8];
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] = bits.words[i], words[4 + i] = next.words[i];
    const bool by_two = element % 8 >= 4, by_one = element % 4 >= 2;
#pragma unroll
    for (int i = 0; i < 6; ++i) words[i] = by_two ? words[i + 2] : words[i];
#pragma unroll
    for (int i = 0; i < 5; ++i) words[i] = by_one ? words[i + 1] : words[i];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      bits.words[i] = __funnelshift_r(words[i], words[i + 1], element % 2 == 0 ? 0 : 16);
  }
  return bits;
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

// SeenKeys in 31 bits, of row b: the same questions, as a kernel counts. Queries may be beyond the
// last. kPacked: there are starts. Kernels know it when they are compiled, since those without
// starts have no register to spare.
template <bool kPacked>
struct SeenTokens {
  bool causal;
  int window, T;
  const int32_t* starts;  // [T]

  __device__ SeenTokens(const SeenKeys& keys, int64_t b, int tokens)
      : causal(keys.causal),
        window(keys.window > 0 && keys.window < tokens ? static_cast<int>(keys.window) : tokens),
        T(tokens),
        starts(keys.of_row(b, tokens).starts) {}

  // 0 without starts. One beyond the last is of the last one's sample.
  __device__ int start(int i) const {
    if constexpr (kPacked) return __ldg(starts + min(i, T - 1));
    return 0;
  }
  __device__ int first(int i) const {
    if constexpr (kPacked) return max(i - window + 1, start(i));
    return causal ? max(i - window + 1, 0) : 0;
  }
  __device__ int end(int i) const { return causal || kPacked ? i + 1 : T; }
  // `sample`: start(i), which many keys share.
  __device__ bool sees(int i, int sample, int j) const {
    if constexpr (kPacked) return j <= i && j > i - window && j >= sample;
    return !causal || (j <= i && j > i - window);
  }
  // Do all queries of [i, i_end) see all keys of [j, j_end)?
  __device__ bool all(int i, int i_end, int j, int j_end) const {
    if constexpr (kPacked) return j_end - 1 <= i && j >= first(i_end - 1);
    return !causal || (j_end - 1 <= i && j > i_end - 1 - window);
  }
  // Does none see any?
  __device__ bool none(int i, int i_end, int j, int j_end) const {
    if constexpr (kPacked) return j > i_end - 1 || j_end - 1 < first(i);
    return causal && (j > i_end - 1 || j_end - 1 <= i - window);
  }
};

// --- scores --------------------------------------------------------------------------------------

constexpr float kLog2e = 1.4426950408889634F;

__device__ inline float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// fn(std::bool_constant<kDropout>, std::bool_constant<kPacked>)
template <typename Fn>
void visit_masks(bool dropout, bool packed, Fn&& fn) {
  const auto with = [&](auto drops) {
    if (packed) return fn(drops, std::true_type{});
    fn(drops, std::false_type{});
  };
  if (dropout) return with(std::true_type{});
  with(std::false_type{});
}

// fn(T{}, std::integral_constant<int, kD>) with the device's type, and the smallest width that
// holds heads of D elements.
template <typename Fn>
void visit_mma(Dtype dtype, int64_t D, Fn&& fn) {
  visit_device_float(dtype, [&](auto zero) {
    if (D <= 64) return fn(zero, std::integral_constant<int, 64>{});
    if (D <= 128) return fn(zero, std::integral_constant<int, 128>{});
    if constexpr (sizeof(zero) == 2) {
      if (D <= 256) return fn(zero, std::integral_constant<int, 256>{});
    }
    throw internal_error("heads of {} elements in {} on tensor cores", D, name_of(dtype));
  });
}

}  // namespace snug::ops

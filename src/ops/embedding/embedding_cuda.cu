// The lookup, and the gradients of positions and types.
#include "ops/embedding/embedding_cuda.h"

#include "kernels/cuda/column_sum.h"
#include "kernels/cuda/map.cuh"
#include "ops/embedding/embedding_attrs.h"
#include "ops/embedding/start_from.cuh"
#include "ops/packed_rows.h"

namespace snug::ops {
namespace {

template <typename T>
struct LookUp {
  const T* table;         // [V, C]
  const int32_t* tokens;  // [B, T]
  const T* positions;     // [P, C] or absent
  const T* types;         // [N, C] or absent
  const int32_t* starts;  // [B, T] or absent
  T* y;                   // [B, T, C]
  int64_t rows, length, C;
  int64_t first, words;  // of the table
  float scale;           // of the table's rows
};

constexpr int kRowsPerBlock = 8;  // a warp each
constexpr int kAhead = 4;         // loads in flight per thread

template <int N, typename T>
__device__ void add_floats(const T* from, float (&sum)[N]) {
  float values[N];
  load_floats<N>(from, values);
#pragma unroll
  for (int i = 0; i < N; ++i) sum[i] += values[i];
}

template <int N, typename T>
__global__ void __launch_bounds__(kRowsPerBlock * 32) look_up(LookUp<T> p) {
  const int64_t r = int64_t{blockIdx.x} * kRowsPerBlock + threadIdx.x / 32;
  if (r >= p.rows) return;
  const int64_t word = p.tokens[r] - p.first;
  const bool here = word >= 0 && word < p.words;
  const T* row = p.table + (here ? word : 0) * p.C;
  const float scale = here ? p.scale : 0.0F;
  const T* position = p.positions != nullptr
                          ? p.positions + position_in_sample(p.starts, r, p.length) * p.C
                          : nullptr;
  for (int64_t first = (threadIdx.x % 32) * N; first < p.C; first += 32 * N * kAhead) {
    Vector<T, N> in[kAhead];
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const int64_t c = first + u * 32 * N;
      if (c < p.C) in[u] = Vector<T, N>::load(row + c);
    }
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const int64_t c = first + u * 32 * N;
      if (c >= p.C) break;
      float sum[N];
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] = to_float(in[u].v[i]) * scale;
      if (position != nullptr) add_floats<N>(position + c, sum);
      if (p.types != nullptr) add_floats<N>(p.types + c, sum);
      store_floats<N>(p.y + r * p.C + c, sum);
    }
  }
}

// --- backward ------------------------------------------------------------------------------------

template <typename T, typename G>
struct Positions {
  const T* dy;   // [B, T, C]
  const G* add;  // [P, C] or absent
  G* sum;        // [P, C], may be add
  int64_t B, length, C;
  int64_t first;  // the row of the first position
};

constexpr int kColumnThreads = 128;

// A block per row of the table: what every sequence has at its position, one after another.
template <int N, typename T, typename G>
__global__ void __launch_bounds__(kColumnThreads) sum_positions(Positions<T, G> p) {
  const int64_t c = (int64_t{blockIdx.y} * kColumnThreads + threadIdx.x) * N;
  const int64_t row = blockIdx.x, t = row - p.first;
  if (c >= p.C) return;
  float sum[N] = {};
  if (p.add != nullptr) load_floats<N>(p.add + row * p.C + c, sum);
  if (t >= 0 && t < p.length) {
#pragma unroll 8
    for (int64_t b = 0; b < p.B; ++b) add_floats<N>(p.dy + (b * p.length + t) * p.C + c, sum);
  }
  store_floats<N>(p.sum + row * p.C + c, sum);
}

__global__ void write_positions(const int32_t* starts, int64_t rows, int64_t T, int64_t first,
                                int32_t* positions) {
  const int64_t r = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r < rows) positions[r] = static_cast<int32_t>(position_in_sample(starts, r, T) + first);
}

// Of positions that restart: they are in any order, as tokens are.
void sum_restarting_positions(const KernelArgs& a, const int32_t* starts) {
  const int64_t rows = a.in(0).shape().rows(), T = a.in(0).shape()[1];
  const bool add = start_from(a, 1);
  if (rows == 0) return;
  auto* positions = reinterpret_cast<int32_t*>(a.workspace.data());  // [B, T]
  const auto blocks = static_cast<unsigned>(ceil_div(rows, kColumnThreads));
  write_positions<<<blocks, kColumnThreads, 0, stream_of(a)>>>(starts, rows, T,
                                                               first_position(a.attrs), positions);
  check_launch("embedding_grad_positions");
  add_by_token_cuda(a, positions, add, a.workspace.data() + positions_scratch(rows));
}

}  // namespace

void embedding_cuda(const KernelArgs& a) {
  visit_device_float(a.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t skipped = first_position(a.attrs) * a.in(0).shape().back();
    const bool others = others_here(a.attrs);
    const LookUp<T> p{.table = a.in<T>(0),
                      .tokens = a.in<int32_t>(1),
                      .positions = a.has(2) && others ? a.in<T>(2) + skipped : nullptr,
                      .types = others ? a.in<T>(3) : nullptr,
                      .starts = a.in<int32_t>(4),
                      .y = a.out<T>(0),
                      .rows = a.in(1).elements(),
                      .length = a.in(1).shape().back(),
                      .C = a.in(0).shape().back(),
                      .first = first_word(a.attrs),
                      .words = a.in(0).shape()[0],
                      .scale = rounded_scale(a)};
    if (p.rows == 0) return;
    const auto blocks = static_cast<unsigned>(ceil_div(p.rows, kRowsPerBlock));
    constexpr int kThreads = kRowsPerBlock * 32;
    if (vectorises<T>(p.C) && aligned(p.table, p.positions, p.types, p.y)) {
      look_up<Vector<T>::kSize><<<blocks, kThreads, 0, stream_of(a)>>>(p);
    } else {
      look_up<1><<<blocks, kThreads, 0, stream_of(a)>>>(p);
    }
  });
  check_launch("embedding");
}

void embedding_grad_positions_cuda(const KernelArgs& a) {
  if (a.has(2)) return sum_restarting_positions(a, a.in<int32_t>(2));
  visit_device_float(a.in(0).type->dtype, [&](auto x) {
    visit_device_float(a.out(0).type->dtype, [&](auto g) {
      using T = decltype(x);
      using G = decltype(g);
      const Positions<T, G> p{.dy = a.in<T>(0),
                              .add = a.in<G>(1),
                              .sum = a.out<G>(0),
                              .B = a.in(0).shape()[0],
                              .length = a.in(0).shape()[1],
                              .C = a.out(0).shape().back(),
                              .first = first_position(a.attrs)};
      const auto grid = [&](int64_t width) {
        return dim3(static_cast<unsigned>(a.out(0).shape()[0]),
                    static_cast<unsigned>(ceil_div(p.C, kColumnThreads * width)));
      };
      constexpr int kWidth = Vector<T>::kSize;
      if (vectorises<T>(p.C) && aligned(p.dy, p.add, p.sum)) {
        sum_positions<kWidth><<<grid(kWidth), kColumnThreads, 0, stream_of(a)>>>(p);
      } else {
        sum_positions<1><<<grid(1), kColumnThreads, 0, stream_of(a)>>>(p);
      }
    });
  });
  check_launch("embedding_grad_positions");
}

// Every token is of type 0.
void embedding_grad_types_cuda(const KernelArgs& a) {
  start_from(a, 1);
  cuda_column_sum({.x = a.in(0).data,
                   .add = a.out(0).data,
                   .sum = a.out(0).data,
                   .scratch = a.workspace.data(),
                   .rows = a.in(0).shape().rows(),
                   .columns = a.in(0).shape().back(),
                   .x_dtype = a.in(0).type->dtype,
                   .sum_dtype = a.out(0).type->dtype},
                  a.stream);
}

}  // namespace snug::ops

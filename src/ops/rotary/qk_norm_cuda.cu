// A part of a row is a warp's where heads are normed alone, a block's where a token's are normed
// together. Backward: a fixed number of blocks walks the rows, each with its own sums of the
// weights' gradients; no atomics, so the bits are the same in every run.
#include "ops/rotary/qk_norm_cuda.h"

#include "kernels/cuda/column_sum.h"
#include "kernels/cuda/launch.cuh"

namespace snug::ops {
namespace {

constexpr int kBlock = 256;

template <typename T>
struct Args {
  QkNormParts parts;
  const T *qkv, *q_weight, *k_weight, *dy;  // dy: of backward
  T* out;                                   // y, which may be qkv; or dqkv, which may be dy
  float* rstd;                              // [B*T, parts]
  float *dq, *dk;                           // backward: [blocks, weights] each
  float eps, offset;

  __device__ int64_t rows() const { return parts.p.B * parts.p.T; }
  __device__ const T* weight(bool key) const { return key ? k_weight : q_weight; }
};

// kThreads threads share a part of a row.
template <int kThreads>
__device__ float part_sum(float x) {
  if constexpr (kThreads == 32) return warp_sum(x);
  return block_sum<kThreads>(x);
}

// fn(column) for this thread's vectors of N of `columns` columns.
template <int N, int kThreads, typename Fn>
__device__ void for_columns(int64_t columns, const Fn& fn) {
  for (int64_t c = threadIdx.x % kThreads * N; c < columns; c += kThreads * N) fn(c);
}

template <int N, int kThreads, typename T>
__global__ void __launch_bounds__(kBlock) forward(const Args<T> p) {
  using V = Vector<T, N>;
  after_previous();
  const QkNormParts& parts = p.parts;
  const int64_t per_row = parts.count() + (p.out != p.qkv ? 1 : 0);  // v is copied
  const int64_t item = int64_t{blockIdx.x} * (kBlock / kThreads) + threadIdx.x / kThreads;
  const int64_t row = item / per_row, g = item % per_row;
  if (row >= p.rows()) return;
  const bool normed = g < parts.count();
  const int64_t at = row * parts.p.width() + (normed ? parts.start(g) : parts.normed());
  if (!normed) {
    for_columns<N, kThreads>(parts.p.width() - parts.normed(),
                             [&](int64_t c) { V::load(p.qkv + at + c).store(p.out + at + c); });
    return;
  }
  const int64_t C = parts.width(g);
  float squares = 0;
  for_columns<N, kThreads>(C, [&](int64_t c) {
    const V x = V::load(p.qkv + at + c);
#pragma unroll
    for (int i = 0; i < N; ++i) squares += x[i] * x[i];
  });
  const float rstd = 1 / sqrtf(part_sum<kThreads>(squares) / static_cast<float>(C) + p.eps);
  const T* weights = p.weight(parts.is_key(g));
  for_columns<N, kThreads>(C, [&](int64_t c) {
    const V x = V::load(p.qkv + at + c), weight = V::load(weights + c);
    V y;
#pragma unroll
    for (int i = 0; i < N; ++i) y.set(i, x[i] * rstd * (weight[i] + p.offset));
    y.store(p.out + at + c);
  });
  if (threadIdx.x % kThreads == 0) p.rstd[row * parts.count() + g] = rstd;
}

// One part of a row: adds to the thread's columns of dweight, and makes dx.
template <int N, int kThreads, typename T>
__device__ void backward_part(const Args<T>& p, int64_t row, int64_t g, float* dweight) {
  using V = Vector<T, N>;
  const QkNormParts& parts = p.parts;
  const int64_t at = row * parts.p.width() + parts.start(g), C = parts.width(g);
  const T* weights = p.weight(parts.is_key(g));
  const float rstd = p.rstd[row * parts.count() + g];
  float dot = 0;
  for_columns<N, kThreads>(C, [&](int64_t c) {
    const V x = V::load(p.qkv + at + c), dy = V::load(p.dy + at + c), w = V::load(weights + c);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float n = x[i] * rstd;
      dot += dy[i] * (w[i] + p.offset) * n;
      dweight[c + i] += dy[i] * n;
    }
  });
  const float mean = part_sum<kThreads>(dot) / static_cast<float>(C);
  for_columns<N, kThreads>(C, [&](int64_t c) {
    const V x = V::load(p.qkv + at + c), dy = V::load(p.dy + at + c), w = V::load(weights + c);
    V dx;
#pragma unroll
    for (int i = 0; i < N; ++i) dx.set(i, rstd * (dy[i] * (w[i] + p.offset) - x[i] * rstd * mean));
    dx.store(p.out + at + c);
  });
}

extern __shared__ float head_sums[];  // heads alone: [warps, q and k, D]

// A thread's sums are in its own columns of what its warp has in shared memory, or, where all heads
// are normed together, of the block's row in the scratch.
template <int N, int kThreads, typename T>
__global__ void __launch_bounds__(kBlock) backward(const Args<T> p) {
  constexpr int kGroups = kBlock / kThreads;
  after_previous();
  const QkNormParts& parts = p.parts;
  const int group = static_cast<int>(threadIdx.x) / kThreads;
  const int64_t of_q = parts.width(0), of_k = parts.width(parts.count() - 1);
  float* dq = p.dq + blockIdx.x * of_q;
  float* dk = p.dk + blockIdx.x * of_k;
  float* own_dq = kGroups > 1 ? head_sums + 2 * group * of_q : dq;
  float* own_dk = kGroups > 1 ? own_dq + of_q : dk;
  const auto clear = [&](float* sums, int64_t columns) {
    for_columns<N, kThreads>(columns, [&](int64_t c) {
#pragma unroll
      for (int i = 0; i < N; ++i) sums[c + i] = 0;
    });
  };
  clear(own_dq, of_q);
  clear(own_dk, of_k);
  for (int64_t row = blockIdx.x; row < p.rows(); row += gridDim.x) {
    for (int64_t g = group; g < parts.count(); g += kGroups)
      backward_part<N, kThreads>(p, row, g, parts.is_key(g) ? own_dk : own_dq);
    if (p.out == p.dy) continue;
    const int64_t v = row * parts.p.width() + parts.normed();
    for_columns<N, kBlock>(parts.p.width() - parts.normed(), [&](int64_t c) {
      Vector<T, N>::load(p.dy + v + c).store(p.out + v + c);
    });
  }
  if constexpr (kGroups == 1) return;
  __syncthreads();
  for (int64_t c = threadIdx.x; c < 2 * of_q; c += kBlock) {
    float sum = 0;
    for (int w = 0; w < kGroups; ++w) sum += head_sums[2 * w * of_q + c];
    (c < of_q ? dq[c] : dk[c - of_q]) = sum;
  }
}

// fn(std::integral_constant<int, N>, std::integral_constant<int, kThreads>)
template <typename T, typename Fn>
void visit_shape(const QkNormParts& parts, Fn&& fn) {
  using Warp = std::integral_constant<int, 32>;
  using Block = std::integral_constant<int, kBlock>;
  const auto with_width = [&](auto width) {
    if (parts.per_head) return fn(width, Warp{});
    fn(width, Block{});
  };
  if (vectorises<T>(parts.p.D)) return with_width(std::integral_constant<int, Vector<T>::kSize>{});
  with_width(std::integral_constant<int, 1>{});
}

template <typename T>
Args<T> args_of(const KernelArgs& a) {
  return {.parts = qk_norm_parts(a.in(0).shape(), a.in(1).shape(), a.attrs),
          .qkv = a.in<T>(0),
          .q_weight = a.in<T>(1),
          .k_weight = a.in<T>(2),
          .dy = nullptr,
          .out = a.out<T>(0),
          .rstd = nullptr,
          .dq = nullptr,
          .dk = nullptr,
          .eps = static_cast<float>(a.attrs.f("eps")),
          .offset = static_cast<float>(a.attrs.f("offset", 0))};
}

}  // namespace

void qk_norm_cuda(const KernelArgs& a) {
  if (a.in(0).elements() == 0) return;
  visit_device_float(a.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    Args<T> p = args_of<T>(a);
    p.rstd = a.out<float>(1);
    const int64_t items = p.parts.p.B * p.parts.p.T * (p.parts.count() + (p.out != p.qkv ? 1 : 0));
    visit_shape<T>(p.parts, [&](auto width, auto threads) {
      constexpr int N = decltype(width)::value, kThreads = decltype(threads)::value;
      const auto blocks = static_cast<unsigned>(ceil_div(items, kBlock / kThreads));
      launch_after_previous(forward<N, kThreads, T>, blocks, kBlock, 0, stream_of(a), p);
    });
  });
}

void qk_norm_grad_cuda(const KernelArgs& a) {
  if (a.in(0).elements() == 0) return;
  const int64_t of_q = a.in(1).elements(), of_k = a.in(2).elements();
  auto* scratch = reinterpret_cast<float*>(a.workspace.data());
  int64_t blocks = 0;
  visit_device_float(a.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    Args<T> p = args_of<T>(a);
    blocks = qk_norm_grad_blocks(p.parts);
    p.rstd = const_cast<float*>(a.in<float>(3));  // backward reads it
    p.dy = a.in<T>(4);
    p.dq = scratch;
    p.dk = scratch + blocks * of_q;
    visit_shape<T>(p.parts, [&](auto width, auto threads) {
      constexpr int N = decltype(width)::value, kThreads = decltype(threads)::value;
      const size_t shared = kThreads == kBlock ? 0 : kBlock / kThreads * 2 * of_q * sizeof(float);
      launch_after_previous(backward<N, kThreads, T>, static_cast<unsigned>(blocks), kBlock, shared,
                            stream_of(a), p);
    });
  });
  const auto add_up = [&](const float* partials, size_t port, size_t start, int64_t columns) {
    cuda_add_partials({.partials = partials,
                       .add = a.in<void>(start),
                       .sum = a.out<void>(port),
                       .blocks = blocks,
                       .columns = columns,
                       .sum_dtype = a.out(port).type->dtype},
                      a.stream);
  };
  add_up(scratch, 1, 5, of_q);
  add_up(scratch + blocks * of_q, 2, 6, of_k);
}

}  // namespace snug::ops

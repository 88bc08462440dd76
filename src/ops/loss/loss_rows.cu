#include "ops/loss/loss_rows.h"

#include "kernels/cuda/launch.cuh"
#include "ops/loss/loss_rows.cuh"
#include "ops/loss/loss_rows_on_chip.h"

namespace snug::ops {
namespace {

constexpr int kAhead = 3;  // loads in flight per thread: as many as 64 registers hold
constexpr int kEndThreads = 128;

template <int kThreads>
__device__ float block_max(float x) {
  __shared__ float partial[kThreads / 32];
  x = warp_max(x);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
  __syncthreads();
#pragma unroll
  for (int w = 0; w < kThreads / 32; ++w) x = fmaxf(x, partial[w]);
  return x;
}

// fn(i, vector i of the row) for this thread's vectors i = threadIdx.x (mod kThreads) of
// [first, end), several loads at a time. first is a multiple of kThreads.
template <int N, int kThreads, typename T, typename Fn>
__device__ void for_vectors(const T* row, int first, int end, const Fn& fn) {
  for (int base = first + threadIdx.x; base < end; base += kThreads * kAhead) {
    Vector<T, N> in[kAhead];
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const int i = base + u * kThreads;
      if (i < end) in[u] = Vector<T, N>::load(row + int64_t{i} * N);
    }
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const int i = base + u * kThreads;
      if (i < end) fn(i, in[u]);
    }
  }
}

// What follows a row in its last vector becomes minus infinity: it is never the largest, adds
// nothing to the sum and has no gradient. So sweeps need not look for the row's end.
template <int N, typename T>
__global__ void __launch_bounds__(kEndThreads) fill_last_vectors(LossRows p) {
  const int64_t r = int64_t{blockIdx.x} * kEndThreads + threadIdx.x;
  if (r >= p.rows) return;
  T* row = static_cast<T*>(p.logits) + r * p.stride;
  for (int64_t v = p.V; v % N != 0; ++v) row[v] = from_float<T>(-INFINITY);
}

template <int N, int kThreads, typename T>
__device__ void clear_row(T* row, int vectors) {
  for (int i = threadIdx.x; i < vectors; i += kThreads) zeros<T, N>().store(row + int64_t{i} * N);
}

constexpr int kForwardThreads = 512, kGradientThreads = 1024;

// First sweep: maximum and sum. With kGradient a second one makes dlogits of the logits: of the
// first `kept` vectors from shared memory, of the others from the L2 cache, which has just seen
// them, so they go first. `kept` is a multiple of the threads or the whole row, and every thread
// meets its own vectors again.
template <int N, bool kGradient, typename T>
__global__ void __launch_bounds__(kGradient ? kGradientThreads : kForwardThreads)
    consume_rows(LossRows p, int kept) {
  constexpr int kThreads = kGradient ? kGradientThreads : kForwardThreads;
  extern __shared__ uint4 shared[];
  auto* keep = reinterpret_cast<Vector<T, N>*>(shared);
  const int64_t r = blockIdx.x;
  const int vectors = static_cast<int>(ceil_div(p.V, N));
  const int32_t target = p.targets[r];
  T* row = static_cast<T*>(p.logits) + r * p.stride;
  if (target < 0) {
    if constexpr (kGradient) clear_row<N, kThreads>(row, vectors);
    if (threadIdx.x == 0) write_no_loss(p, r);
    return;
  }
  OnlineSum<T> seen;
  for_vectors<N, kThreads>(static_cast<const T*>(row), 0, vectors,
                           [&](int i, const Vector<T, N>& logits) {
                             if (kGradient && i < kept) logits.store(keep[i].v);
                             seen.add(logits);
                           });
  const float max = block_max<kThreads>(seen.max);
  // Before the sum's barrier, after which logits are overwritten.
  const float target_logit = threadIdx.x > 0 ? 0.0F : logit_of_target(row, target, p.V);
  const float sum = block_sum<kThreads>(seen.sum * ExpFrom<T>(max)(seen.max));
  if (threadIdx.x == 0) write_loss(p, r, max, sum, target_logit);

  if constexpr (kGradient) {
    const float dloss = *p.dloss;
    const RowGradient<T> gradient{ExpFrom<T>(max), dloss / sum, dloss, target};
    for_vectors<N, kThreads>(static_cast<const T*>(row), kept, vectors,
                             [&](int i, const Vector<T, N>& logits) {
                               gradient.of(logits, i).store(row + int64_t{i} * N);
                             });
#pragma unroll 2
    for (int i = threadIdx.x; i < kept; i += kThreads) {
      gradient.of(Vector<T, N>::load(keep[i].v), i).store(row + int64_t{i} * N);
    }
  }
}

template <int N, typename T>
__global__ void __launch_bounds__(kForwardThreads) gradient_rows(LossRows p, T* dlogits) {
  const int64_t r = blockIdx.x;
  const int vectors = static_cast<int>(ceil_div(p.V, N));
  const int32_t target = p.targets[r];
  T* to = dlogits + r * p.stride;
  if (target < 0) return clear_row<N, kForwardThreads>(to, vectors);
  const float dloss = *p.dloss;
  const RowGradient<T> gradient{ExpFrom<T>(p.lse[r]), dloss, dloss, target};
  for_vectors<N, kForwardThreads>(static_cast<const T*>(p.logits) + r * p.stride, 0, vectors,
                                  [&](int i, const Vector<T, N>& logits) {
                                    gradient.of(logits, i).store(to + int64_t{i} * N);
                                  });
}

constexpr int kSumThreads = 1024;

__global__ void __launch_bounds__(kSumThreads)
    sum_losses_kernel(const double* losses, int64_t rows, const float* before, float* loss) {
  double sum = 0;
  for (int64_t r = threadIdx.x; r < rows; r += kSumThreads) sum += losses[r];
  sum = block_sum<kSumThreads>(sum);
  if (threadIdx.x > 0) return;
  *loss = static_cast<float>((before != nullptr ? static_cast<double>(*before) : 0.0) + sum);
}

// fn(T{}, N): the type, and how many of its elements are read at once.
template <typename Fn>
void visit_rows(const LossRows& p, const Fn& fn) {
  visit_device_float(p.dtype, [&](auto zero) {
    using T = decltype(zero);
    constexpr int kWidth = Vector<T>::kSize;
    if (vectorises<T>(p.stride) && aligned(p.logits)) {
      fn(zero, std::integral_constant<int, kWidth>{});
    } else {
      fn(zero, std::integral_constant<int, 1>{});
    }
  });
}

// Before a sweep over rows whose last vectors they do not fill.
void end_rows(const LossRows& p, void* stream) {
  visit_rows(p, [&](auto zero, auto width) {
    constexpr int N = decltype(width)::value;
    if (p.V % N == 0) return;
    fill_last_vectors<N, decltype(zero)><<<static_cast<unsigned>(ceil_div(p.rows, kEndThreads)),
                                           kEndThreads, 0, static_cast<cudaStream_t>(stream)>>>(p);
    check_launch("the end of rows");
  });
}

// How many vectors of a row to keep in shared memory; which are kept changes no result.
template <int N, typename T>
int64_t kept_of(int64_t vectors) {
  constexpr int64_t kWanted = 200 << 10;  // bytes
  static const int64_t most = std::min(kWanted, most_dynamic_shared(consume_rows<N, true, T>)) /
                              static_cast<int64_t>(sizeof(Vector<T, N>));
  return vectors <= most ? vectors : most / kGradientThreads * kGradientThreads;
}

}  // namespace

void loss_of_rows(const LossRows& p, void* stream) {
  if (p.rows == 0) return;
  end_rows(p, stream);
  visit_rows(p, [&](auto zero, auto width) {
    constexpr int N = decltype(width)::value;
    consume_rows<N, false, decltype(zero)>
        <<<static_cast<unsigned>(p.rows), kForwardThreads, 0, static_cast<cudaStream_t>(stream)>>>(
            p, 0);
  });
  check_launch("the loss of rows");
}

void loss_and_gradient_of_rows(const LossRows& p, void* stream) {
  if (p.rows == 0) return;
  end_rows(p, stream);
  if (fit_on_chip(p)) return loss_and_gradient_on_chip(p, stream);
  visit_rows(p, [&](auto zero, auto width) {
    constexpr int N = decltype(width)::value;
    using T = decltype(zero);
    const int64_t kept = kept_of<N, T>(ceil_div(p.V, N));
    launch_with_shared(consume_rows<N, true, T>, static_cast<unsigned>(p.rows), kGradientThreads,
                       static_cast<size_t>(kept) * sizeof(Vector<T, N>),
                       static_cast<cudaStream_t>(stream), p, static_cast<int>(kept));
  });
}

void gradient_of_rows(const LossRows& p, void* dlogits, void* stream) {
  if (p.rows == 0) return;
  visit_rows(p, [&](auto zero, auto width) {
    using T = decltype(zero);
    gradient_rows<decltype(width)::value, T>
        <<<static_cast<unsigned>(p.rows), kForwardThreads, 0, static_cast<cudaStream_t>(stream)>>>(
            p, static_cast<T*>(dlogits));
  });
  check_launch("the gradient of rows");
}

void sum_losses(const double* losses, int64_t rows, const float* before, float* loss,
                void* stream) {
  sum_losses_kernel<<<1, kSumThreads, 0, static_cast<cudaStream_t>(stream)>>>(losses, rows, before,
                                                                              loss);
  check_launch("the sum of losses");
}

}  // namespace snug::ops

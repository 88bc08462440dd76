#include <cmath>

#include "kernels/cuda/kernel.cuh"
#include "ops/optimizer/loss_scale.h"
#include "ops/optimizer/optimizer_cuda.h"
#include "ops/optimizer/sum_blocks.h"

namespace snug::ops {
namespace {

// --- sum_squares ---------------------------------------------------------------------------------

// As many gradients as the parameters of one launch hold (4 KB).
struct Gradients {
  static constexpr int kMost = 160;
  struct One {
    const void* data;
    int64_t elements;
    int32_t first;  // its first block in this launch
    Dtype dtype;
  };
  One list[kMost];
  int32_t count = 0, blocks = 0;

  void add(const Tensor& grad) {
    list[count++] = {grad.data, grad.elements(), blocks, grad.type->dtype};
    blocks += static_cast<int32_t>(sum_blocks(grad.elements()));
  }
};
static_assert(sizeof(Gradients) + sizeof(double*) <= 4096);

// The last gradient that begins at or before `block`.
__device__ const Gradients::One& gradient_of(const Gradients& gradients, int32_t block) {
  int low = 0, high = gradients.count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (gradients.list[middle].first <= block ? low : high) = middle;
  }
  return gradients.list[low];
}

constexpr int kSumThreads = 256;

template <typename T>
__device__ double squares(const Vector<T>& x) {
  double sum = 0;
#pragma unroll
  for (int i = 0; i < Vector<T>::kSize; ++i) {
    const auto g = static_cast<double>(x[i]);
    sum += g * g;
  }
  return sum;
}

// This thread's share of n elements: vectors, four of them on their way at once, then what is left.
template <typename T>
__device__ double share_of_squares(const T* x, int64_t n) {
  constexpr int kSize = Vector<T>::kSize;
  constexpr int kAtOnce = 4;
  const int vectors = reinterpret_cast<uintptr_t>(x) % 16 == 0 ? static_cast<int>(n / kSize) : 0;
  double sum = 0;
  int p = static_cast<int>(threadIdx.x);
  for (; p + (kAtOnce - 1) * kSumThreads < vectors; p += kAtOnce * kSumThreads) {
    Vector<T> x4[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k)
      x4[k] = Vector<T>::load_once(x + int64_t{p + k * kSumThreads} * kSize);
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) sum += squares(x4[k]);
  }
  for (; p < vectors; p += kSumThreads)
    sum += squares(Vector<T>::load_once(x + int64_t{p} * kSize));
  for (int64_t i = int64_t{vectors} * kSize + threadIdx.x; i < n; i += kSumThreads) {
    const auto g = static_cast<double>(to_float(x[i]));
    sum += g * g;
  }
  return sum;
}

template <typename T>
__device__ double squares_of_block(const Gradients::One& grad, int64_t block) {
  const int64_t begin = block * kSumBlock;
  const int64_t left = grad.elements - begin;
  return share_of_squares(static_cast<const T*>(grad.data) + begin,
                          left < kSumBlock ? left : kSumBlock);
}

__global__ void __launch_bounds__(kSumThreads, 4)
    sum_of_blocks(const __grid_constant__ Gradients gradients, double* partial) {
  const Gradients::One& grad = gradient_of(gradients, static_cast<int32_t>(blockIdx.x));
  const int64_t block = int64_t{blockIdx.x} - grad.first;
  const double share = grad.dtype == Dtype::bf16  ? squares_of_block<__nv_bfloat16>(grad, block)
                       : grad.dtype == Dtype::f16 ? squares_of_block<__half>(grad, block)
                                                  : squares_of_block<float>(grad, block);
  const double sum = block_sum<kSumThreads>(share);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

constexpr int kTotalThreads = 1024;

__global__ void __launch_bounds__(kTotalThreads)
    add_partials(const double* partial, int64_t n, double* to) {
  double share = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < n; i += kTotalThreads) share += partial[i];
  const double sum = block_sum<kTotalThreads>(share);
  if (threadIdx.x == 0) *to = sum;
}

// --- clip ----------------------------------------------------------------------------------------

struct Sums {
  static constexpr int kMost = 448;
  const double* list[kMost];
  int count = 0;
};

struct ClipCuda {
  const float *loss_scale, *loss;  // nullptr: absent
  float max_norm;
  float *norm, *scale;
  int32_t* finite;

  __device__ void finish(double sum) const {
    const float by = loss_scale == nullptr ? 1 : *loss_scale;
    const auto n = static_cast<float>(sqrt(sum) / static_cast<double>(by));
    const bool good = isfinite(n) && (loss == nullptr || isfinite(*loss));
    const float factor = max_norm > 0 && good ? fminf(1.0F, max_norm / (n + 1e-6F)) : 1;
    *norm = n;
    *scale = factor / by;
    *finite = good ? 1 : 0;
  }
};

// Adds this launch's sums to those of the launches before; the last one finishes.
__global__ void __launch_bounds__(kSumThreads)
    clip(const __grid_constant__ Sums sums, const __grid_constant__ ClipCuda c, double* running,
         bool first, bool last) {
  double share = 0;
  for (int i = static_cast<int>(threadIdx.x); i < sums.count; i += kSumThreads)
    share += *sums.list[i];
  double sum = block_sum<kSumThreads>(share);
  if (threadIdx.x != 0) return;
  if (!first) sum += *running;
  if (last) {
    c.finish(sum);
  } else {
    *running = sum;
  }
}

// --- counters ------------------------------------------------------------------------------------

__global__ void advance(const int64_t* from, int64_t* to, const int32_t* predicate) {
  if (predicate == nullptr || *predicate != 0) *to = *from + 1;
}

struct LossScaleCuda {
  double growth, backoff, floor;
  int64_t interval;
  const float* loss_scale;
  const int64_t* clean;
  const int32_t* finite;
  float* next_scale;
  int64_t* next_clean;
};

__global__ void adjust_loss_scale(const __grid_constant__ LossScaleCuda a) {
  const auto now = static_cast<double>(*a.loss_scale);
  const int64_t clean = *a.clean + 1;
  const bool overflow = *a.finite == 0, grows = !overflow && clean >= a.interval;
  const double next = overflow ? fmax(a.floor, now * a.backoff)
                      : grows  ? fmin(kMaxLossScale, now * a.growth)
                               : now;
  *a.next_scale = static_cast<float>(next);
  *a.next_clean = overflow || grows ? 0 : clean;
}

}  // namespace

void sum_squares_cuda(const KernelArgs& a) {
  auto* const partial = reinterpret_cast<double*>(a.workspace.data());
  int64_t done = 0;
  Gradients some;
  const auto launch = [&] {
    if (some.blocks > 0) {
      sum_of_blocks<<<static_cast<unsigned>(some.blocks), kSumThreads, 0, stream_of(a)>>>(
          some, partial + done);
      check_launch("sum_squares");
    }
    done += some.blocks;
    some.count = some.blocks = 0;
  };
  for (const Tensor& grad : a.inputs) {
    if (grad.elements() == 0) continue;
    some.add(grad);
    if (some.count == Gradients::kMost) launch();
  }
  launch();
  add_partials<<<1, kTotalThreads, 0, stream_of(a)>>>(partial, done, a.out<double>(0));
  check_launch("sum_squares' last sum");
}

void clip_cuda(const KernelArgs& a) {
  const ClipCuda c{.loss_scale = a.in<float>(0),
                   .loss = a.in<float>(1),
                   .max_norm = static_cast<float>(a.attrs.f("max_norm")),
                   .norm = a.out<float>(0),
                   .scale = a.out<float>(1),
                   .finite = a.out<int32_t>(2)};
  auto* const running = reinterpret_cast<double*>(a.workspace.data());
  const auto parts = a.inputs.subspan(2);
  for (size_t begin = 0; begin < parts.size(); begin += Sums::kMost) {
    Sums sums;
    for (const Tensor& part :
         parts.subspan(begin, std::min<size_t>(Sums::kMost, parts.size() - begin)))
      sums.list[sums.count++] = part.as<const double>();
    clip<<<1, kSumThreads, 0, stream_of(a)>>>(sums, c, running, begin == 0,
                                              begin + Sums::kMost >= parts.size());
    check_launch("clip");
  }
}

void advance_cuda(const KernelArgs& a) {
  advance<<<1, 1, 0, stream_of(a)>>>(a.in<int64_t>(0), a.out<int64_t>(0), a.predicate);
  check_launch("advance");
}

void adjust_loss_scale_cuda(const KernelArgs& a) {
  adjust_loss_scale<<<1, 1, 0, stream_of(a)>>>({.growth = a.attrs.f("growth"),
                                                .backoff = a.attrs.f("backoff"),
                                                .floor = a.attrs.f("floor"),
                                                .interval = a.attrs.i("interval"),
                                                .loss_scale = a.in<float>(0),
                                                .clean = a.in<int64_t>(1),
                                                .finite = a.in<int32_t>(2),
                                                .next_scale = a.out<float>(0),
                                                .next_clean = a.out<int64_t>(1)});
  check_launch("adjust_loss_scale");
}

}  // namespace snug::ops

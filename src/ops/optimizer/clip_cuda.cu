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
  static constexpr int kMost = 127;
  struct One {
    const void* data;
    double* sums;
    int64_t elements;
    int32_t first;  // its first block in this launch
  };
  One list[kMost];
  int32_t count = 0, blocks = 0;

  void add(const KernelArgs& a) {
    const int64_t elements = a.in(0).elements();
    if (elements == 0) return;
    list[count++] = {a.in(0).data, a.out<double>(0), elements, blocks};
    blocks += static_cast<int32_t>(sum_blocks(elements));
  }
};
static_assert(sizeof(Gradients) <= 4096);

// The last gradient that begins at or before `block`.
__device__ const Gradients::One& gradient_of(const Gradients& gradients, int32_t block) {
  int low = 0, high = gradients.count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (gradients.list[middle].first <= block ? low : high) = middle;
  }
  return gradients.list[low];
}

// This thread's vectors of a block's n elements: four of them on their way at once; one by one
// where the address does not allow vectors, and at the end.
template <typename T>
__device__ double share_of_squares(const T* x, int n) {
  constexpr int kSize = Vector<T>::kSize;
  constexpr int kAtOnce = 4;
  const int vectors = reinterpret_cast<uintptr_t>(x) % 16 == 0 ? n / kSize : 0;
  double slots[kSize] = {};
  const auto add = [&](int i, float g) {  // the square is exact
    slots[i] = fma(static_cast<double>(g), static_cast<double>(g), slots[i]);
  };
  int p = static_cast<int>(threadIdx.x);
  for (; p + (kAtOnce - 1) * kSumVectors < vectors; p += kAtOnce * kSumVectors) {
    Vector<T> x4[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k)
      x4[k] = Vector<T>::load_once(x + (p + k * kSumVectors) * kSize);
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
#pragma unroll
      for (int i = 0; i < kSize; ++i) add(i, x4[k][i]);
    }
  }
  for (; p < vectors; p += kSumVectors) {
    const auto x1 = Vector<T>::load_once(x + p * kSize);
#pragma unroll
    for (int i = 0; i < kSize; ++i) add(i, x1[i]);
  }
  for (; p * kSize < n; p += kSumVectors) {
#pragma unroll
    for (int i = 0; i < kSize; ++i)
      if (p * kSize + i < n) add(i, to_float(x[p * kSize + i]));
  }
  double sum = 0;
#pragma unroll
  for (int i = 0; i < kSize; ++i) sum += slots[i];
  return sum;
}

template <typename T>
__global__ void __launch_bounds__(kSumVectors, 4)
    sum_of_blocks(const __grid_constant__ Gradients gradients) {
  const Gradients::One& grad = gradient_of(gradients, static_cast<int32_t>(blockIdx.x));
  const int64_t block = int64_t{blockIdx.x} - grad.first, begin = block * kSumBlock;
  const int64_t left = grad.elements - begin;
  const double sum = block_sum<kSumVectors>(
      share_of_squares(static_cast<const T*>(grad.data) + begin,
                       static_cast<int>(left < kSumBlock ? left : kSumBlock)));
  if (threadIdx.x == 0) grad.sums[block] = sum;
}

// --- clip ----------------------------------------------------------------------------------------

// The block sums of one launch's gradients.
struct Squares {
  const double* list[kClipAtOnce];
  uint32_t first[kClipAtOnce + 1];  // of each, and at last the end: counted through all launches
  uint32_t count = 0;
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
static_assert(sizeof(Squares) + sizeof(ClipCuda) + 2 * sizeof(void*) <= 4096);

// One thread for each slot, which are kept between launches; the last one finishes.
__global__ void __launch_bounds__(kClipSlots)
    clip(const __grid_constant__ Squares squares, const __grid_constant__ ClipCuda c, double* slots,
         bool first, bool last) {
  constexpr int kAtOnce = 8;
  const uint32_t begin = squares.first[0], end = squares.first[squares.count];
  double sum = first ? 0 : slots[threadIdx.x];
  uint32_t row = 0;
  for (uint32_t at = begin + (threadIdx.x - begin) % kClipSlots; at < end;) {
    double blocks[kAtOnce];
#pragma unroll
    for (double& block : blocks) {
      block = 0;
      if (at < end) {
        while (at >= squares.first[row + 1]) ++row;
        block = squares.list[row][at - squares.first[row]];
      }
      at += kClipSlots;
    }
#pragma unroll
    for (const double block : blocks) sum += block;
  }
  if (!last) {
    slots[threadIdx.x] = sum;
    return;
  }
  sum = block_sum<kClipSlots>(sum);
  if (threadIdx.x == 0) c.finish(sum);
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

void sum_squares_cuda(const KernelArgs& a) { sum_squares_many_cuda({&a, 1}); }

// All calls are of one row of the kernel table, and so of one type.
void sum_squares_many_cuda(std::span<const KernelArgs> all) {
  visit_device_float(all[0].in(0).type->dtype, [&](auto zero) {
    for (size_t i = 0; i < all.size();) {
      Gradients some;
      while (i < all.size() && some.count < Gradients::kMost) some.add(all[i++]);
      if (some.blocks == 0) continue;
      sum_of_blocks<decltype(zero)>
          <<<static_cast<unsigned>(some.blocks), kSumVectors, 0, stream_of(all[0])>>>(some);
      check_launch("sum_squares");
    }
  });
}

void clip_cuda(const KernelArgs& a) {
  const ClipCuda c{.loss_scale = a.in<float>(0),
                   .loss = a.in<float>(1),
                   .max_norm = static_cast<float>(a.attrs.f("max_norm")),
                   .norm = a.out<float>(0),
                   .scale = a.out<float>(1),
                   .finite = a.out<int32_t>(2)};
  auto* const slots = reinterpret_cast<double*>(a.workspace.data());
  const auto all = a.inputs.subspan(2);
  uint32_t blocks = 0;
  for (size_t begin = 0; begin < all.size(); begin += kClipAtOnce) {
    Squares squares;
    for (const Tensor& one : all.subspan(begin, std::min(kClipAtOnce, all.size() - begin))) {
      squares.list[squares.count] = one.as<const double>();
      squares.first[squares.count++] = blocks;
      blocks += static_cast<uint32_t>(one.elements());
    }
    squares.first[squares.count] = blocks;
    clip<<<1, kClipSlots, 0, stream_of(a)>>>(squares, c, slots, begin == 0,
                                             begin + kClipAtOnce >= all.size());
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

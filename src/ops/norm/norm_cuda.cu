#include "ops/norm/norm_cuda.h"

#include "ops/norm/norm_ports.h"
#include "ops/norm/norm_rows.cuh"

namespace snug::ops {
namespace {

template <typename T>
struct Norm {
  const T *x, *delta, *weight, *bias;  // [rows, C] twice, [C] twice; delta: of the residual forms
  T *h, *y;                            // h may be x or delta, y may be x where there is no h
  float *mean, *rstd;                  // [rows]
  int64_t rows;
  int columns;
  float eps, per_column, offset;  // the last is added to weights
};

// h = x + delta, rounded as it is stored: the plain norm of h gives the same bits.
template <typename T>
__device__ Vector<T> add(const Vector<T>& x, const Vector<T>& delta) {
  Vector<T> h;
#pragma unroll
  for (int i = 0; i < Vector<T>::kSize; ++i) h.set(i, x[i] + delta[i]);
  return h;
}

// How rows are held: by up to kWarps warps each, with kVectors vectors to a lane. kBlocks blocks
// fit a multiprocessor, which is what bounds a thread's registers.
template <int kVectors_, int kWarps_, int kBlocks_>
struct RowShape {
  static constexpr int kVectors = kVectors_, kWarps = kWarps_, kBlocks = kBlocks_;
  static constexpr int kAlone = 4;  // rows of a block, where one warp holds a row
  static constexpr int kThreads = 32 * std::max(kWarps, kAlone);
};

// A group reads its row, and ends with it: the device deals blocks, so no multiprocessor waits for
// a slower one. All of a thread's loads are in flight at once.
template <typename T, bool kCentered, bool kResidual, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, blocks_at_once(Shape::kThreads, Shape::kBlocks))
    norm_rows(Norm<T> p) {
  using V = Vector<T>;
  using Sum = GroupSum<1, /*kAlone=*/true>;
  constexpr int kVectors = Shape::kVectors;
  after_previous();
  const int64_t row = int64_t{from_end(blockIdx.x, gridDim.x)} * blockDim.y + threadIdx.y;
  if (row >= p.rows) return;  // the whole group
  __shared__ alignas(16) Sum::Slots slots;
  Sum row_sum{slots};
  const int64_t start = row * p.columns;
  V x[kVectors];
  V delta[kResidual ? kVectors : 1];
  for_group_vectors<T, kVectors>(p.columns, [&](int k, int column) {
    x[k] = V::load(p.x + start + column);
    if constexpr (kResidual) delta[k] = V::load(p.delta + start + column);
  });
  float sum = 0;
  float squares = 0;
  for_group_vectors<T, kVectors>(p.columns, [&](int k, int column) {
    if constexpr (kResidual) {
      x[k] = add(x[k], delta[k]);
      x[k].store(p.h + start + column);
    }
#pragma unroll
    for (int i = 0; i < V::kSize; ++i) {
      if constexpr (kCentered) sum += x[k][i];
      if constexpr (!kCentered) squares += x[k][i] * x[k][i];
    }
    keep_packed(x[k]);
  });
  const float mean = kCentered ? row_sum(sum) * p.per_column : 0;
  if constexpr (kCentered) {
    for_group_vectors<T, kVectors>(p.columns, [&](int k, int) {
#pragma unroll
      for (int i = 0; i < V::kSize; ++i) squares += (x[k][i] - mean) * (x[k][i] - mean);
      keep_packed(x[k]);
    });
  }
  const float rstd = 1 / sqrtf(row_sum(squares) * p.per_column + p.eps);
  for_group_vectors<T, kVectors>(p.columns, [&](int k, int column) {
    const V weight = V::load(p.weight + column);
    V y, bias;
    if constexpr (kCentered) bias = V::load(p.bias + column);
#pragma unroll
    for (int i = 0; i < V::kSize; ++i) {
      y.set(i,
            normed<kCentered>(x[k][i], mean, rstd, weight[i] + p.offset, kCentered ? bias[i] : 0));
    }
    y.store(p.y + start + column);
  });
  if (threadIdx.x == 0) {
    if constexpr (kCentered) p.mean[row] = mean;
    p.rstd[row] = rstd;
  }
}

// Rows of any width: a block walks each of them in memory. A thread reads back only what it wrote.
template <typename T, bool kCentered, bool kResidual>
__global__ void __launch_bounds__(kAnyRow) norm_any(Norm<T> p) {
  after_previous();
  for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const T* x = (kResidual ? p.h : p.x) + row * p.columns;
    float sum = 0;
    float squares = 0;
    for (int c = static_cast<int>(threadIdx.x); c < p.columns; c += kAnyRow) {
      const int64_t at = row * p.columns + c;
      if constexpr (kResidual) p.h[at] = from_float<T>(to_float(p.x[at]) + to_float(p.delta[at]));
      const float v = to_float(x[c]);
      if constexpr (kCentered) sum += v;
      if constexpr (!kCentered) squares += v * v;
    }
    const float mean = kCentered ? block_sum<kAnyRow>(sum) * p.per_column : 0;
    for (int c = static_cast<int>(threadIdx.x); kCentered && c < p.columns; c += kAnyRow) {
      squares += (to_float(x[c]) - mean) * (to_float(x[c]) - mean);
    }
    const float rstd = 1 / sqrtf(block_sum<kAnyRow>(squares) * p.per_column + p.eps);
    for (int c = static_cast<int>(threadIdx.x); c < p.columns; c += kAnyRow) {
      const float bias = kCentered ? to_float(p.bias[c]) : 0;
      const float weight = to_float(p.weight[c]) + p.offset;
      p.y[row * p.columns + c] =
          from_float<T>(normed<kCentered>(to_float(x[c]), mean, rstd, weight, bias));
    }
    if (threadIdx.x == 0) {
      if constexpr (kCentered) p.mean[row] = mean;
      p.rstd[row] = rstd;
    }
  }
}

// --- launches ------------------------------------------------------------------------------------

// Was it launched? Where the shape holds such a row.
template <typename Shape, typename T, bool kCentered, bool kResidual>
bool launch_rows(const Norm<T>& p, cudaStream_t stream) {
  const int64_t warps = group_warps(p.columns * int64_t{sizeof(T)}, Shape::kVectors);
  if (!vectorises<T>(p.columns) || warps > Shape::kWarps) return false;
  const int64_t groups = warps == 1 ? Shape::kAlone : 1;
  const int64_t blocks = std::max<int64_t>(ceil_div(p.rows, groups), 1);
  launch_after_previous(norm_rows<T, kCentered, kResidual, Shape>, static_cast<unsigned>(blocks),
                        dim3(static_cast<unsigned>(32 * warps), static_cast<unsigned>(groups)), 0,
                        stream, p);
  return true;
}

// Two vectors to a lane were fastest, but for rows that one warp can hold without a barrier (H200).
template <typename T, bool kCentered, bool kResidual>
void launch_fastest(const Norm<T>& p, cudaStream_t stream) {
  using OneWarp = RowShape<4, 1, 12>;
  using Usual = RowShape<2, 8, kResidual ? 5 : 8>;
  using Wide = RowShape<4, 32, 1>;
  const auto launched = [&](auto shape) {
    return launch_rows<decltype(shape), T, kCentered, kResidual>(p, stream);
  };
  if constexpr (!kResidual) {
    if (launched(OneWarp{})) return;
  }
  if (launched(Usual{}) || launched(Wide{})) return;
  launch_after_previous(norm_any<T, kCentered, kResidual>, blocks_for(p.rows, 1), kAnyRow, 0,
                        stream, p);
}

template <typename T, bool kCentered, bool kResidual>
void launch(const KernelArgs& a) {
  using P = NormPorts<kResidual>;
  const int64_t columns = a.in(P::x).shape().back();
  const Norm<T> p{.x = a.in<T>(P::x),
                  .delta = kResidual ? a.in<T>(P::delta) : nullptr,
                  .weight = a.in<T>(P::weight),
                  .bias = kCentered ? a.in<T>(P::weight + 1) : nullptr,
                  .h = kResidual ? a.out<T>(P::h) : nullptr,
                  .y = a.out<T>(P::y),
                  .mean = kCentered ? a.out<float>(P::y + 1) : nullptr,
                  .rstd = a.out<float>(P::y + (kCentered ? 2 : 1)),
                  .rows = a.in(P::x).shape().rows(),
                  .columns = static_cast<int>(columns),
                  .eps = static_cast<float>(a.attrs.f("eps")),
                  .per_column = 1 / static_cast<float>(columns),
                  .offset = static_cast<float>(a.attrs.f("offset", 0))};
  launch_fastest<T, kCentered, kResidual>(p, stream_of(a));
}

template <bool kCentered, bool kResidual>
void norm(const KernelArgs& a) {
  visit_device_float(a.in(0).type->dtype,
                     [&](auto zero) { launch<decltype(zero), kCentered, kResidual>(a); });
}

}  // namespace

void rms_norm_cuda(const KernelArgs& a) { norm<false, false>(a); }
void residual_rms_norm_cuda(const KernelArgs& a) { norm<false, true>(a); }
void layer_norm_cuda(const KernelArgs& a) { norm<true, false>(a); }
void residual_layer_norm_cuda(const KernelArgs& a) { norm<true, true>(a); }

}  // namespace snug::ops

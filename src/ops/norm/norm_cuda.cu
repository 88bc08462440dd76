#include "ops/norm/norm_cuda.h"

#include "ops/norm/norm_ports.h"
#include "ops/norm/norm_rows.cuh"

namespace snug::ops {
namespace {

constexpr int kStages = 3;  // rows per group on their way or at work

template <typename T>
struct Norm {
  const T *x, *delta, *weight, *bias;  // [rows, C] twice, [C] twice; delta: of the residual forms
  T *h, *y;                            // h may be x or delta, y may be x where there is no h
  float *mean, *rstd;                  // [rows]
  int64_t rows;
  int columns;
  float eps, per_column;
};

// h = x + delta, rounded as it is stored: the plain norm of h gives the same bits.
template <typename T>
__device__ Pack<T> add(const Pack<T>& x, const Pack<T>& delta) {
  Pack<T> h;
#pragma unroll
  for (int i = 0; i < Pack<T>::kSize; ++i) h.set(i, x[i] + delta[i]);
  return h;
}

template <typename T, bool kCentered, bool kResidual, int kWarps>
__global__ void __launch_bounds__(RowGroup<kWarps>::kBlock, 1) norm_rows(Norm<T> p) {
  using Group = RowGroup<kWarps>;
  using V = Pack<T>;
  after_previous();
  const RowStages<T, kWarps, kStages> stages{p.columns};
  const auto fetch = [&](int64_t row, int stage) {
    stages.copy(0, stage, p.x, row);
    if constexpr (kResidual) stages.copy(1, stage, p.delta, row);
  };
  V weight[kRowPacks];
  for_row_packs<T, kWarps>(p.columns,
                           [&](int k, int column) { weight[k] = V::load(p.weight + column); });
  RowSum<kWarps> row_sum;
  for_staged_rows<kWarps, kStages>(p.rows, fetch, [&](int64_t row, int stage) {
    const int64_t start = row * p.columns;
    V x[kRowPacks];
    float sum = 0;
    float squares = 0;
    for_row_packs<T, kWarps>(p.columns, [&](int k, int column) {
      x[k] = stages.at(0, stage, k);
      if constexpr (kResidual) {
        x[k] = add(x[k], stages.at(1, stage, k));
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
      for_row_packs<T, kWarps>(p.columns, [&](int k, int) {
#pragma unroll
        for (int i = 0; i < V::kSize; ++i) squares += (x[k][i] - mean) * (x[k][i] - mean);
        keep_packed(x[k]);
      });
    }
    const float rstd = 1 / sqrtf(row_sum(squares) * p.per_column + p.eps);
    for_row_packs<T, kWarps>(p.columns, [&](int k, int column) {
      keep_packed(weight[k]);
      V y, bias;
      if constexpr (kCentered) bias = V::load(p.bias + column);
#pragma unroll
      for (int i = 0; i < V::kSize; ++i) {
        y.set(i, normed<kCentered>(x[k][i], mean, rstd, weight[k][i], kCentered ? bias[i] : 0));
      }
      y.store(p.y + start + column);
    });
    if (Group::lane() == 0) {
      if constexpr (kCentered) p.mean[row] = mean;
      p.rstd[row] = rstd;
    }
  });
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
      p.y[row * p.columns + c] =
          from_float<T>(normed<kCentered>(to_float(x[c]), mean, rstd, to_float(p.weight[c]), bias));
    }
    if (threadIdx.x == 0) {
      if constexpr (kCentered) p.mean[row] = mean;
      p.rstd[row] = rstd;
    }
  }
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
                  .per_column = 1 / static_cast<float>(columns)};
  const int warps = norm_row_warps(columns, sizeof(T));
  if (warps == 0) {
    launch_after_previous(norm_any<T, kCentered, kResidual>, blocks_for(p.rows, 1), kAnyRow, 0,
                          stream_of(a), p);
  } else {
    visit_row_warps(warps, [&](auto w) {
      constexpr int kWarps = decltype(w)::value;
      using Group = RowGroup<kWarps>;
      launch_after_previous(norm_rows<T, kCentered, kResidual, kWarps>,
                            blocks_for(p.rows, Group::kGroups, /*waves=*/1), Group::kBlock,
                            row_stage_bytes(kResidual ? 2 : 1, kStages), stream_of(a), p);
    });
  }
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

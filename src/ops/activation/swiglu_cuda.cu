#include "kernels/cuda/rows.cuh"
#include "ops/activation/activation_cuda.h"
#include "ops/activation/activation_math.cuh"

namespace snug::ops {
namespace {

template <typename T>
struct Swiglu {
  const T *gate_up, *dy;  // [rows, 2F], [rows, F]
  T *dgate_up, *y;        // may be gate_up and dy
  int64_t F;
};

// gate -> gate P(gate): P, and d times the derivative of the whole.
template <typename T>
struct Silu {
  float p;
  __device__ explicit Silu(float g) : p(sigmoid<T>(g)) {}
  __device__ float dgate(float d, float g) const { return d * p * (1 + g * (1 - p)); }
};
template <typename T>
struct Gelu {
  float p, slope;
  __device__ explicit Gelu(float g) {
    const Gate gate = TanhForm<T>::gate(g);
    p = gate.value, slope = gate.slope;
  }
  __device__ float dgate(float d, float g) const { return d * (p + g * slope); }
};

__device__ float gated(float gate, float p, float up) { return __fmul_rn(__fmul_rn(gate, p), up); }

constexpr int kPerThread = 2;

template <typename Form, typename T, typename V>
__global__ void __launch_bounds__(RowTiles::kMostThreads, 4) forward(Swiglu<T> p, unsigned tiles) {
  const auto [row, first] = row_place<kPerThread>(tiles);
  const int64_t vectors = p.F / V::kSize;
  const T* gates = p.gate_up + row * 2 * p.F;
  V gate[kPerThread], up[kPerThread];
  for_tile_vectors<V, kPerThread>(first, vectors, [&](int k, int64_t at) {
    gate[k] = V::load_once(gates + at);
    up[k] = V::load_once(gates + p.F + at);
  });
  T* ys = p.y + row * p.F;
  for_tile_vectors<V, kPerThread>(first, vectors, [&](int k, int64_t at) {
    V y;
#pragma unroll
    for (int i = 0; i < V::kSize; ++i) {
      y.set(i, gated(gate[k][i], Form(gate[k][i]).p, up[k][i]));
    }
    y.store(ys + at);
  });
}

template <typename Form, typename T, typename V, bool kRecomputes>
__global__ void __launch_bounds__(RowTiles::kMostThreads, 4) backward(Swiglu<T> p, unsigned tiles) {
  const auto [row, first] = row_place<kPerThread>(tiles);
  const int64_t vectors = p.F / V::kSize;
  const T* gates = p.gate_up + row * 2 * p.F;
  const T* dys = p.dy + row * p.F;
  V gate[kPerThread], up[kPerThread], dy[kPerThread];
  for_tile_vectors<V, kPerThread>(first, vectors, [&](int k, int64_t at) {
    gate[k] = V::load_once(gates + at);
    up[k] = V::load_once(gates + p.F + at);
    dy[k] = V::load_once(dys + at);
  });
  T* dgates = p.dgate_up + row * 2 * p.F;
  T* ys = p.y + row * p.F;
  for_tile_vectors<V, kPerThread>(first, vectors, [&](int k, int64_t at) {
    V dgate, dup, y;
#pragma unroll
    for (int i = 0; i < V::kSize; ++i) {
      const float g = gate[k][i];
      const float u = up[k][i];
      const float d = dy[k][i];
      const Form form(g);
      dgate.set(i, form.dgate(d * u, g));
      dup.set(i, d * g * form.p);
      if constexpr (kRecomputes) y.set(i, gated(g, form.p, u));
    }
    dgate.store(dgates + at);
    dup.store(dgates + p.F + at);
    if constexpr (kRecomputes) y.store(ys + at);
  });
}

template <bool kRecomputes>
void grad(const KernelArgs& a) {
  const int64_t rows = a.in(1).shape().rows();
  const int64_t F = a.in(1).shape().back();
  if (a.in(1).elements() == 0) return;
  visit_device_float(a.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    const Swiglu<T> p{.gate_up = a.in<T>(0),
                      .dy = a.in<T>(1),
                      .dgate_up = a.out<T>(0),
                      .y = kRecomputes ? a.out<T>(1) : nullptr,
                      .F = F};
    visit_width<T>(F, [&](auto access) {
      using V = decltype(access);
      const RowTiles tiles = row_tiles<kPerThread>(rows, F / V::kSize);
      const auto kernel = a.attrs.b("gelu", false) ? backward<Gelu<T>, T, V, kRecomputes>
                                                   : backward<Silu<T>, T, V, kRecomputes>;
      kernel<<<tiles.blocks, tiles.threads, 0, stream_of(a)>>>(p, tiles.tiles);
    });
  });
  check_launch("swiglu_grad");
}

}  // namespace

void swiglu_cuda(const KernelArgs& a) {
  const int64_t rows = a.out(0).shape().rows();
  const int64_t F = a.out(0).shape().back();
  if (a.out(0).elements() == 0) return;
  visit_device_float(a.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    const Swiglu<T> p{
        .gate_up = a.in<T>(0), .dy = nullptr, .dgate_up = nullptr, .y = a.out<T>(0), .F = F};
    visit_width<T>(F, [&](auto access) {
      using V = decltype(access);
      const RowTiles tiles = row_tiles<kPerThread>(rows, F / V::kSize);
      const auto kernel =
          a.attrs.b("gelu", false) ? forward<Gelu<T>, T, V> : forward<Silu<T>, T, V>;
      kernel<<<tiles.blocks, tiles.threads, 0, stream_of(a)>>>(p, tiles.tiles);
    });
  });
  check_launch("swiglu");
}
void swiglu_grad_cuda(const KernelArgs& a) { grad<false>(a); }
void swiglu_recompute_grad_cuda(const KernelArgs& a) { grad<true>(a); }

}  // namespace snug::ops

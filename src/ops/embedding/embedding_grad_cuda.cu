// The gradient of the table, and of positions that restart, without atomics: rows of dy in the order of their tokens, a segment of
// them per block. A token inside a segment is summed in registers and written once; of one that
// runs over an end each segment leaves its part in scratch, and a second kernel adds those up in
// order. Sums are fp32, rounded once. A frequent token is so spread over many blocks.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/map.cuh"
#include "ops/embedding/embedding_attrs.h"
#include "ops/embedding/embedding_cuda.h"
#include "ops/embedding/start_from.cuh"

namespace snug::ops {
namespace {

constexpr int kThreads = 128;  // of a block, side by side along a row
constexpr int kSegment = kEmbeddingSegment;
constexpr int kAhead = 8;  // rows in flight
constexpr int32_t kNoToken = -1;

template <typename T, typename G>
struct TableGrad {
  const T* dy;               // [n, C]
  const TokenPlace* places;  // [n], in order
  G* dtable;                 // [V, C]
  float* parts;              // [segments, 2, C]
  int64_t C;
  int n;
  int32_t padding;     // the token without gradient, or kNoToken
  int32_t first, end;  // the words of the table
  bool add;            // does dtable hold a sum already?
  float scale;         // of dy

  __device__ bool trains(int32_t token) const {
    return token >= first && token < end && token != padding;
  }
  __device__ G* row(int32_t token) const { return dtable + (token - first) * C; }
  __device__ int32_t token_at(int i) const { return i >= 0 && i < n ? places[i].token : kNoToken; }
  // Of a token that began in an earlier segment, and of one that continues in the next.
  __device__ float* head(int segment) const { return parts + int64_t{segment} * 2 * C; }
  __device__ float* tail(int segment) const { return head(segment) + C; }

  template <int N>
  __device__ void write(int32_t token, int64_t c, float (&sum)[N]) const {
    if (!trains(token)) return;
    G* to = row(token) + c;
    if (add) {
      float before[N];
      load_floats<N>(to, before);
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += before[i];
    }
    store_floats<N>(to, sum);
  }
};

template <typename G, int N>
struct Held {
  static constexpr int kWidth = FloatAccess<N, G>::kWidth;
  using Raw = typename Vector<G, kWidth>::Raw;  // unpacked early, rows would not fit the registers
  Raw piece[N / kWidth];

  __device__ void load(const G* from) {
#pragma unroll
    for (int i = 0; i < N / kWidth; ++i)
      piece[i] = *reinterpret_cast<const Raw*>(from + i * kWidth);
  }
  __device__ float operator[](int i) const {
    return to_float(reinterpret_cast<const G*>(&piece[i / kWidth])[i % kWidth]);
  }
};

// What a token is added to is read with its last row, rather than when its sum is done.
template <int N, bool kAdd, typename T, typename G>
__global__ void __launch_bounds__(kThreads) sum_segments(TableGrad<T, G> p) {
  after_previous();
  __shared__ TokenPlace window[kSegment + 2];  // the segment and its neighbours
  const int segment = blockIdx.x, first = segment * kSegment;
  const int count = min(kSegment, p.n - first);
  if (threadIdx.x < kSegment + 2) {
    const int i = first - 1 + static_cast<int>(threadIdx.x);
    window[threadIdx.x] = i >= 0 && i < p.n ? p.places[i] : TokenPlace{0, kNoToken};
  }
  __syncthreads();
  const int64_t c = (int64_t{blockIdx.y} * kThreads + threadIdx.x) * N;
  if (c >= p.C) return;

  const auto ends = [&](int k) { return window[k + 1].token != window[k].token; };
  bool began_before = window[0].token == window[1].token;
  float sum[N] = {};
  for (int base = 0; base < count; base += kAhead) {
    Held<T, N> in[kAhead];
    Held<G, N> before[kAhead];
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const int k = base + u + 1;  // in the window
      if (k > count) continue;
      in[u].load(p.dy + window[k].row * p.C + c);
      if (kAdd && ends(k) && p.trains(window[k].token)) before[u].load(p.row(window[k].token) + c);
    }
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const int k = base + u + 1;
      if (k > count) continue;
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += in[u][i] * p.scale;
      const bool goes_on = !ends(k);
      if (goes_on && k < count) continue;
      if (began_before) {
        store_floats<N>(p.head(segment) + c, sum);
      } else if (goes_on) {
        store_floats<N>(p.tail(segment) + c, sum);
      } else if (const int32_t token = window[k].token; p.trains(token)) {
#pragma unroll
        for (int i = 0; i < N; ++i)
          if (kAdd) sum[i] += before[u][i];
        store_floats<N>(p.row(token) + c, sum);
      }
      began_before = false;
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] = 0;
    }
  }
}

// The block of the segment where a token began that continues beyond it adds up the token's parts.
template <int N, typename T, typename G>
__global__ void __launch_bounds__(kThreads) join_segments(TableGrad<T, G> p) {
  after_previous();
  const int segment = blockIdx.x, first = segment * kSegment, next = first + kSegment;
  const int32_t token = p.token_at(next - 1);
  if (token == kNoToken || token != p.token_at(next)) return;
  if (token == p.token_at(first - 1)) return;  // it began before

  int last = segment + 1;  // the last segment that begins with the token, by bisection
  for (int beyond = static_cast<int>(gridDim.x); beyond - last > 1;) {
    const int middle = last + (beyond - last) / 2;
    (p.token_at(middle * kSegment) == token ? last : beyond) = middle;
  }
  const int64_t c = (int64_t{blockIdx.y} * kThreads + threadIdx.x) * N;
  if (c >= p.C) return;
  float sum[N];
  load_floats<N>(p.tail(segment) + c, sum);
#pragma unroll 4
  for (int s = segment + 1; s <= last; ++s) {
    float part[N];
    load_floats<N>(p.head(s) + c, part);
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] += part[i];
  }
  p.template write<N>(token, c, sum);
}

template <int N, typename T, typename G>
void launch(const TableGrad<T, G>& p, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(ceil_div(p.n, kSegment)),
                  static_cast<unsigned>(ceil_div(p.C, kThreads * N)));
  launch_after_previous(p.add ? sum_segments<N, true, T, G> : sum_segments<N, false, T, G>, grid,
                        kThreads, 0, stream, p);
  if (grid.x > 1) launch_after_previous(join_segments<N, T, G>, grid, kThreads, 0, stream, p);
}

}  // namespace

void add_by_token_cuda(const KernelArgs& a, const int32_t* tokens, bool add, std::byte* scratch) {
  const int64_t n = a.in(0).shape().rows(), C = a.out(0).shape().back();
  if (n == 0) return;
  const int64_t rows = a.out(0).shape()[0], first = first_word(a.attrs);
  const TokenPlace* places = order_tokens(tokens, n, a.attrs.i("words", rows), scratch, a.stream);
  auto* parts = reinterpret_cast<float*>(scratch + EmbeddingGradScratch::of(n, C).parts);
  visit_device_float(a.in(0).type->dtype, [&](auto x) {
    visit_device_float(a.out(0).type->dtype, [&](auto g) {
      using T = decltype(x);
      const TableGrad<T, decltype(g)> p{.dy = a.in<T>(0),
                                        .places = places,
                                        .dtable = a.out<decltype(g)>(0),
                                        .parts = parts,
                                        .C = C,
                                        .n = static_cast<int>(n),
                                        .padding = static_cast<int32_t>(padding_of(a.attrs)),
                                        .first = static_cast<int32_t>(first),
                                        .end = static_cast<int32_t>(first + rows),
                                        .add = add,
                                        .scale = rounded_scale(a)};
      if (vectorises<T>(C) && aligned(p.dy, p.dtable)) {
        launch<Vector<T>::kSize>(p, stream_of(a));
      } else {
        launch<1>(p, stream_of(a));
      }
    });
  });
}

void embedding_grad_cuda(const KernelArgs& a) {
  const bool add = start_from(a, 2);
  add_by_token_cuda(a, a.in<int32_t>(1), add, a.workspace.data());
}

}  // namespace snug::ops

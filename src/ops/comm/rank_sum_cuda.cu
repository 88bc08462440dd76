// The CPU's order and roundings: a thread adds the blocks of its elements one after another.
#include "kernels/cuda/map.cuh"
#include "ops/comm/rank_sum.h"

namespace snug::ops {
namespace {

template <typename T>
struct SumOfRanks {
  const T* blocks;
  const T* before;  // nullptr: nothing; may be `out`
  T* out;
  int64_t n, block, elements;
  int ranks;

  template <int N>
  struct Loaded {
    float sum[N];
  };
  template <int N>
  __device__ Loaded<N> load(int64_t i) const {
    Loaded<N> in;
    const auto first = Vector<T, N>::load((before != nullptr ? before : blocks) + i);
#pragma unroll
    for (int j = 0; j < N; ++j) in.sum[j] = to_float(first.v[j]);
    for (int r = before != nullptr ? 0 : 1; r < ranks; ++r) {
      const auto next = Vector<T, N>::load(blocks + r * block + i);
#pragma unroll
      for (int j = 0; j < N; ++j) in.sum[j] += to_float(next.v[j]);
    }
    return in;
  }
  template <int N>
  __device__ void store(int64_t i, const Loaded<N>& in) const {
    Vector<T, N> result;
#pragma unroll
    for (int j = 0; j < N; ++j) result.v[j] = from_float<T>(i + j < elements ? in.sum[j] : 0.0F);
    result.store(out + i);
  }
};

}  // namespace

void rank_sum_cuda(const KernelArgs& args) {
  visit_device_float(args.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    const SumOfRanks<T> body{args.in<T>(0) + args.attrs.i("first", 0),
                             args.in<T>(1),
                             args.out<T>(0),
                             args.out(0).elements(),
                             args.in(0).elements() / args.attrs.i("ranks"),
                             args.attrs.i("elements"),
                             static_cast<int>(args.attrs.i("ranks"))};
    constexpr int kVector = 16 / sizeof(T);
    map_elements<kVector>(body, body.n,
                          aligned(body.blocks, body.before, body.out) && body.block % kVector == 0,
                          stream_of(args));
  });
}

}  // namespace snug::ops

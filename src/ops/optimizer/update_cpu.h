// The frame of every update on the CPU: arrays of any float type are opened a tile at a time as
// floats, worked on in fp32, and stored again. Only this file knows the types.
//
//   UpdateCpu u(a, /*states=*/1);
//   u.for_tiles(std::array{u.param(), u.grad(), u.state(0)}, [=](int64_t, int64_t n, auto x) {
//     ... x[0][i] (param), x[1][i] (grad), x[2][i] (state 0) for i < n
//   });
#pragma once

#include <array>

#include "kernels/cpu/for_blocks.h"
#include "ops/optimizer/stochastic.h"
#include "ops/optimizer/update_math.h"
#include "ops/optimizer/update_op.h"
#include "ops/random.h"

namespace snug::ops {

constexpr int64_t kUpdateTile = 1024;  // divides a block, is a multiple of kPerDraw

// One array of an update.
class StoredArray {
 public:
  static StoredArray read_only(const Tensor& t) { return {t, false, 0, 0, 0}; }
  // `first`: the element of the whole parameter that the array begins with.
  static StoredArray rounded(const Tensor& t, Key key, uint64_t stream, int64_t first) {
    return {t, true, key, stream, first};
  }

  int64_t element_bytes() const { return size_of(dtype_); }
  // n <= kUpdateTile elements from `begin` on: the array itself, or `buffer` filled from it.
  float* open(int64_t begin, int64_t n, float* buffer) const;
  // Stores what was opened; `begin` is a multiple of kPerDraw.
  void close(int64_t begin, int64_t n, const float* from) const;

 private:
  StoredArray(const Tensor& t, bool written, Key key, uint64_t stream, int64_t first)
      : data_(t.data),
        dtype_(t.type->dtype),
        written_(written),
        key_(key),
        stream_(stream),
        first_(first) {}

  void* data_;
  Dtype dtype_;
  bool written_;
  Key key_;
  uint64_t stream_;
  int64_t first_;
};

class UpdateCpu {
 public:
  UpdateCpu(const KernelArgs& a, size_t states);

  double lr;
  int64_t step;
  float scale;  // on the gradient
  float keep;   // what weight decay leaves of the parameter

  template <typename Rule>
  Rule started() const {
    Rule rule = Rule::of(a_.attrs);
    rule.start(lr, step);
    return rule;
  }

  int64_t elements() const { return a_.in(UpdatePorts::kParam).elements(); }
  StoredArray param() const { return output(0); }
  StoredArray grad() const { return StoredArray::read_only(a_.in(UpdatePorts::kGrad)); }
  StoredArray state(size_t which) const { return output(which + 1); }

  // The first array is the parameter, from which a weight is rounded.
  template <size_t N, typename Fn>
  void for_tiles(const std::array<StoredArray, N>& arrays, const Fn& fn) const {
    for_blocks(elements(), [&](int64_t begin, int64_t end) {
      float buffers[N][kUpdateTile];
      for (int64_t at = begin; at < end; at += kUpdateTile) {
        const int64_t n = std::min(kUpdateTile, end - at);
        std::array<float*, N> x;
        for (size_t k = 0; k < N; ++k) x[k] = arrays[k].open(at, n, buffers[k]);
        fn(at, n, x);
        for (size_t k = 0; k < N; ++k) arrays[k].close(at, n, x[k]);
        if (weight_ > 0) store_weight(at, n, x[0]);
      }
    });
  }

 private:
  StoredArray output(size_t o) const { return StoredArray::rounded(a_.out(o), key_, o, first_); }
  void store_weight(int64_t begin, int64_t n, const float* from) const;

  const KernelArgs& a_;
  size_t weight_;  // its output, or 0
  Key key_ = 0;
  int64_t first_ = 0;
};

// The step of a rule on n elements. m, v: its states, where it has them.
template <typename Rule>
void step_elements(const Rule& given, float scale, float keep, int64_t n, float* param,
                   const float* grad, float* m, float* v) {
  const Rule rule = given;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    float next_m = 0, next_v = 0;
    if constexpr (Rule::kStates > 0) next_m = m[i];
    if constexpr (Rule::kStates > 1) next_v = v[i];
    NoCursor at;
    param[i] = moved(keep, param[i], rule(at, grad[i] * scale, next_m, next_v));
    if constexpr (Rule::kStates > 0) m[i] = next_m;
    if constexpr (Rule::kStates > 1) v[i] = next_v;
  }
}

}  // namespace snug::ops

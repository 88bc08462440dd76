#include "ops/optimizer/update_cpu.h"

#include <utility>

#include "kernels/float_kernels.h"
#include "ops/optimizer/optimizer_cpu.h"

namespace snug::ops {
namespace {

// The noise of a tile, as rounding_noise gives it. Lanes are kept apart until the end: that
// vectorises.
void draw_noise(Key key, uint64_t stream, int64_t begin, int64_t n, uint32_t* noise) {
  constexpr int64_t kGroups = kUpdateTile / static_cast<int64_t>(kPerDraw);
  const int64_t groups = ceil_div(n, static_cast<int64_t>(kPerDraw));
  const uint64_t first = static_cast<uint64_t>(begin) / kPerDraw;
  uint32_t lanes[4][kGroups];
  for (int64_t g = 0; g < groups; ++g) {
    const auto four = philox(key, first + static_cast<uint64_t>(g), stream);
    lanes[0][g] = four[0];
    lanes[1][g] = four[1];
    lanes[2][g] = four[2];
    lanes[3][g] = four[3];
  }
  for (int64_t g = 0; g < groups; ++g) {
    for (int64_t lane = 0; lane < 4; ++lane) {
      noise[8 * g + lane] = lanes[lane][g] & 0xFFFF;
      noise[8 * g + 4 + lane] = lanes[lane][g] >> 16;
    }
  }
}

// The parameter, the gradient and the rule's states, tile by tile.
template <typename Rule>
void update_cpu(const KernelArgs& a) {
  constexpr size_t kStates = Rule::kStates;
  const UpdateCpu u(a, kStates);
  const Rule rule = u.started<Rule>();
  const auto arrays = [&]<size_t... s>(std::index_sequence<s...>) {
    return std::array{u.param(), u.grad(), u.state(s)...};
  }
  (std::make_index_sequence<kStates>{});
  u.for_tiles(arrays, [&](int64_t, int64_t n, auto x) {
    float *m = nullptr, *v = nullptr;
    if constexpr (kStates > 0) m = x[2];
    if constexpr (kStates > 1) v = x[3];
    step_elements(rule, u.scale, u.keep, n, x[0], x[1], m, v);
  });
}

}  // namespace

float* StoredArray::open(int64_t begin, int64_t n, float* buffer) const {
  if (dtype_ == Dtype::f32) return static_cast<float*>(data_) + begin;
  visit_float(dtype_, [&](auto zero) {
    const auto* from = static_cast<const decltype(zero)*>(data_) + begin;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) buffer[i] = static_cast<float>(from[i]);
  });
  return buffer;
}

void StoredArray::close(int64_t begin, int64_t n, const float* from) const {
  if (!written_ || dtype_ == Dtype::f32) return;
  uint32_t noise[kUpdateTile];
  draw_noise(key_, stream_, first_ + begin, n, noise);
  visit_float(dtype_, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, float>) {
      T* to = static_cast<T*>(data_) + begin;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) to[i].bits = bits_with<T>(from[i], noise[i]);
    }
  });
}

UpdateCpu::UpdateCpu(const KernelArgs& a, size_t states)
    : a_(a), weight_(weight_output(states, a.outputs.size())) {
  const UpdatePorts ports(a.outputs.size());
  lr = static_cast<double>(*a.in<float>(ports.lr));
  step = *a.in<int64_t>(ports.step);
  scale = *a.in<float>(ports.scale);
  keep = kept(lr, a.attrs.f("weight_decay"));
  first_ = a.attrs.i("first", 0);
  if (a.has(ports.seed)) key_ = op_key(*a.in<int64_t>(ports.seed), step, a.attrs);
}

void UpdateCpu::store_weight(int64_t begin, int64_t n, const float* from) const {
  visit_float(a_.out(weight_).type->dtype, [&](auto zero) {
    auto* to = a_.out<decltype(zero)>(weight_) + begin;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) store(to[i], from[i]);
  });
}

void adamw_cpu(const KernelArgs& a) { update_cpu<Adam>(a); }
void lion_cpu(const KernelArgs& a) { update_cpu<Lion>(a); }
void sgd_cpu(const KernelArgs& a) { update_cpu<Sgd>(a); }
void sgd_momentum_cpu(const KernelArgs& a) { update_cpu<Momentum>(a); }

}  // namespace snug::ops

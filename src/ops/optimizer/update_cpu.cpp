#include "ops/optimizer/update_cpu.h"

#include <cmath>

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

}  // namespace

float* Stored::open(int64_t begin, int64_t n, float* buffer) const {
  if (dtype_ == Dtype::f32) return static_cast<float*>(data_) + begin;
  visit_float(dtype_, [&](auto zero) {
    const auto* from = static_cast<const decltype(zero)*>(data_) + begin;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) buffer[i] = static_cast<float>(from[i]);
  });
  return buffer;
}

void Stored::close(int64_t begin, int64_t n, const float* from) const {
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
  step = static_cast<double>(*a.in<int64_t>(ports.step));
  scale = *a.in<float>(ports.scale);
  keep = static_cast<float>(1 - lr * a.attrs.f("weight_decay"));
  first_ = a.attrs.i("first", 0);
  if (a.has(ports.seed))
    key_ = op_key(*a.in<int64_t>(ports.seed), *a.in<int64_t>(ports.step), a.attrs);
}

void UpdateCpu::store_weight(int64_t begin, int64_t n, const float* from) const {
  visit_float(a_.out(weight_).type->dtype, [&](auto zero) {
    auto* to = a_.out<decltype(zero)>(weight_) + begin;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) store(to[i], from[i]);
  });
}

AdamNumbers::AdamNumbers(const UpdateCpu& u, const Attrs& attrs) : scale(u.scale), keep(u.keep) {
  const double beta1 = attrs.f("beta1");
  const double beta2 = attrs.f("beta2");
  step_size = static_cast<float>(u.lr / (1 - std::pow(beta1, u.step)));
  per_root = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, u.step)));
  eps = static_cast<float>(attrs.f("eps"));
  new1 = static_cast<float>(1 - beta1);
  new2 = static_cast<float>(1 - beta2);
  old2 = static_cast<float>(beta2);
}

void adamw_step(const AdamNumbers& numbers, int64_t n, float* param, const float* grad, float* m,
                float* v) {
  const AdamNumbers c = numbers;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float g = grad[i] * c.scale;
    m[i] += c.new1 * (g - m[i]);
    v[i] = c.old2 * v[i] + c.new2 * g * g;
    param[i] = c.keep * param[i] - c.step_size * (m[i] / (std::sqrt(v[i]) * c.per_root + c.eps));
  }
}

void adamw_cpu(const KernelArgs& a) {
  const UpdateCpu u(a, 2);
  const AdamNumbers c(u, a.attrs);
  u.for_tiles(std::array{u.param(), u.grad(), u.state(0), u.state(1)},
              [&](int64_t, int64_t n, auto x) { adamw_step(c, n, x[0], x[1], x[2], x[3]); });
}

void lion_cpu(const KernelArgs& a) {
  const UpdateCpu u(a, 1);
  const auto new1 = static_cast<float>(1 - a.attrs.f("beta1"));
  const auto new2 = static_cast<float>(1 - a.attrs.f("beta2"));
  const auto lr = static_cast<float>(u.lr);
  u.for_tiles(std::array{u.param(), u.grad(), u.state(0)}, [&](int64_t, int64_t n, auto x) {
    float *param = x[0], *m = x[2];
    const float* grad = x[1];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const float g = grad[i] * u.scale;
      const float along = m[i] + new1 * (g - m[i]);
      const float sign = static_cast<float>(along > 0) - static_cast<float>(along < 0);
      m[i] += new2 * (g - m[i]);
      param[i] = u.keep * param[i] - lr * sign;
    }
  });
}

void sgd_cpu(const KernelArgs& a) {
  const UpdateCpu u(a, 0);
  const auto lr = static_cast<float>(u.lr);
  u.for_tiles(std::array{u.param(), u.grad()}, [&](int64_t, int64_t n, auto x) {
    float* param = x[0];
    const float* grad = x[1];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) param[i] = u.keep * param[i] - lr * (grad[i] * u.scale);
  });
}

void sgd_momentum_cpu(const KernelArgs& a) {
  const UpdateCpu u(a, 1);
  const auto momentum = static_cast<float>(a.attrs.f("momentum"));
  const auto lr = static_cast<float>(u.lr);
  u.for_tiles(std::array{u.param(), u.grad(), u.state(0)}, [&](int64_t, int64_t n, auto x) {
    float *param = x[0], *sum = x[2];
    const float* grad = x[1];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      sum[i] = momentum * sum[i] + grad[i] * u.scale;
      param[i] = u.keep * param[i] - lr * sum[i];
    }
  });
}

}  // namespace snug::ops

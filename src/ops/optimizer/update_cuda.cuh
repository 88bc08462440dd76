// The frame of every update on CUDA: a thread opens eight elements of each array as floats, asks
// the method's rule how far each parameter moves, and stores them again. The numbers that are the
// same for all elements are made on the device from its scalars, once per block, in double.
//
//   struct Sgd {
//     static constexpr int kStates = 0;
//     float lr;                                                   // made by start
//     __device__ void start(double rate, int64_t) { lr = float(rate); }
//     __device__ auto cursor(int64_t) const { return NoCursor{}; }
//     __device__ float operator()(NoCursor&, float g, float*) const { return lr * g; }
//   };
//   void sgd_cuda(const KernelArgs& a) { launch_update(a, Sgd{}); }
#pragma once

#include "ops/cuda/launch.cuh"
#include "ops/optimizer/eight.cuh"
#include "ops/optimizer/update_op.h"

namespace snug::ops {

constexpr int kUpdateThreads = 256;

// One op, with the addresses of its per-step scalars.
struct UpdateCuda {
  void* param;
  const void* grad;
  void* states[2];
  int64_t n;
  bool aligned;  // all arrays can be read in packs
  const float *lr, *scale;
  const int64_t *step, *seed;  // seed: nullptr where nothing is rounded
  const int32_t* predicate;
  uint64_t name;
  double weight_decay;

  // `arrays`: how many of the outputs have the parameter's shape.
  UpdateCuda(const KernelArgs& a, size_t arrays)
      : param(a.out<void>(0)),
        grad(a.in<void>(UpdatePorts::kGrad)),
        states{arrays > 1 ? a.out<void>(1) : nullptr, arrays > 2 ? a.out<void>(2) : nullptr},
        n(a.in(UpdatePorts::kParam).elements()),
        predicate(a.predicate),
        weight_decay(a.attrs.f("weight_decay")) {
    const UpdatePorts ports(a.outputs.size());
    lr = a.in<float>(ports.lr);
    step = a.in<int64_t>(ports.step);
    scale = a.in<float>(ports.scale);
    seed = a.in<int64_t>(ports.seed);
    name = seed == nullptr ? 0 : hash_name(a.attrs.s("key"));
    aligned = true;
    for (const void* array :
         {static_cast<const void*>(param), grad, static_cast<const void*>(states[0]),
          static_cast<const void*>(states[1])})
      aligned = aligned && reinterpret_cast<uintptr_t>(array) % 16 == 0;
  }

  __device__ bool skipped() const { return predicate != nullptr && *predicate == 0; }
};

// What is the same for all elements.
template <typename Rule>
struct UpdateNumbers {
  Rule rule;
  Key key;
  float scale;  // on the gradient
  float keep;   // what weight decay leaves of the parameter

  __device__ void make(const UpdateCuda& u, const Rule& given) {
    const auto rate = static_cast<double>(*u.lr);
    rule = given;
    rule.start(rate, *u.step);
    scale = *u.scale;
    keep = static_cast<float>(1 - rate * u.weight_decay);
    key = u.seed == nullptr
              ? 0
              : random_key(static_cast<uint64_t>(*u.seed), static_cast<uint64_t>(*u.step), u.name);
  }
};

// x^n by squaring: within 1e-10 of pow for a million steps, in a third of its registers.
__device__ inline double power(double x, int64_t n) {
  double result = 1;
  for (; n > 0; n >>= 1, x *= x)
    if (n & 1) result *= x;
  return result;
}

// Within 2 units in the last place, for a third of the instructions of the exact ones. Subnormal v
// or y counts as 0: beside Adam's eps both are nothing.
__device__ inline float quick_root(float v) {
  float root;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(v));
  return root;
}
__device__ inline float quick_quotient(float x, float y) {
  float quotient;
  asm("div.approx.ftz.f32 %0, %1, %2;" : "=f"(quotient) : "f"(x), "f"(y));
  return quotient;
}

// A rule whose elements do not depend on where they stand.
struct NoCursor {};

// Adam's, of which several methods are made.
struct Adam {
  static constexpr int kStates = 2;
  double beta1, beta2;
  float eps, new1, new2, old2;
  float step_size, per_root;  // made by start

  static Adam of(const Attrs& attrs) {
    const double beta1 = attrs.f("beta1"), beta2 = attrs.f("beta2");
    return {.beta1 = beta1,
            .beta2 = beta2,
            .eps = static_cast<float>(attrs.f("eps")),
            .new1 = static_cast<float>(1 - beta1),
            .new2 = static_cast<float>(1 - beta2),
            .old2 = static_cast<float>(beta2)};
  }
  __device__ void start(double lr, int64_t step) {
    step_size = static_cast<float>(lr / (1 - power(beta1, step)));
    per_root = static_cast<float>(1 / sqrt(1 - power(beta2, step)));
  }
  __device__ float divisor(float v) const { return quick_root(v) * per_root + eps; }
  __device__ NoCursor cursor(int64_t) const { return {}; }
  __device__ float operator()(NoCursor&, float g, float* state) const {
    float &m = state[0], &v = state[1];
    m += new1 * (g - m);
    v = old2 * v + new2 * g * g;
    return step_size * quick_quotient(m, divisor(v));
  }
};

// --- the kernel ----------------------------------------------------------------------------------

// Eight elements of every array. M, V: of the states that Rule has.
template <typename Rule, typename P, typename G, typename M, typename V>
struct UpdateGroup {
  static constexpr bool kM = Rule::kStates > 0, kV = Rule::kStates > 1;
  Eight<P> param;
  Eight<G> grad;
  Eight<M> m;
  Eight<V> v;

  __device__ void load(const UpdateCuda& u, int64_t group) {
    const Eighth where(group, u.n, u.aligned);
    where.packed ? load(u, where) : load(u, where);  // one branch for all arrays
  }
  __device__ void load(const UpdateCuda& u, const Eighth& where) {
    param.load(static_cast<const P*>(u.param), where);
    grad.load(static_cast<const G*>(u.grad), where);
    if constexpr (kM) m.load(static_cast<const M*>(u.states[0]), where);
    if constexpr (kV) v.load(static_cast<const V*>(u.states[1]), where);
  }

  __device__ void step(const UpdateCuda& u, const UpdateNumbers<Rule>& c, int64_t group) {
    float next[8], next_m[8], next_v[8];
    auto cursor = c.rule.cursor(group * 8);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      float state[2] = {};
      if constexpr (kM) state[0] = m[i];
      if constexpr (kV) state[1] = v[i];
      next[i] = c.keep * param[i] - c.rule(cursor, grad[i] * c.scale, state);
      next_m[i] = state[0];
      next_v[i] = state[1];
    }
    const Eighth where(group, u.n, u.aligned);
    rounded<P>(next, c.key, 0, group).store(static_cast<P*>(u.param), where);
    if constexpr (kM)
      rounded<M>(next_m, c.key, 1, group).store(static_cast<M*>(u.states[0]), where);
    if constexpr (kV)
      rounded<V>(next_v, c.key, 2, group).store(static_cast<V*>(u.states[1]), where);
  }
};

// Blocks that a multiprocessor holds: as many as their registers allow without spilling.
template <typename Rule>
constexpr int kUpdateBlocks = Rule::kStates > 1 ? 3 : 4;

// The first loads are under way while one thread makes the numbers, and the next ones while a group
// takes its step.
template <typename Rule, typename P, typename G, typename M, typename V>
__global__ void __launch_bounds__(kUpdateThreads, kUpdateBlocks<Rule>)
    update(const __grid_constant__ UpdateCuda u, const __grid_constant__ Rule given) {
  after_previous();
  const int64_t groups = ceil_div(u.n, 8);
  const int64_t stride = int64_t{gridDim.x} * kUpdateThreads;
  int64_t group = int64_t{blockIdx.x} * kUpdateThreads + threadIdx.x;
  UpdateGroup<Rule, P, G, M, V> next;
  if (group < groups) next.load(u, group);
  if (u.skipped()) return;
  __shared__ UpdateNumbers<Rule> numbers;
  if (threadIdx.x == 0) numbers.make(u, given);
  __syncthreads();
  const UpdateNumbers<Rule> c = numbers;
  for (; group < groups; group += stride) {
    UpdateGroup<Rule, P, G, M, V> x = next;
    if (group + stride < groups) next.load(u, group + stride);
    x.step(u, c, group);
  }
}

// fn(T{}) with the type of state kWhich; float where the rule has no such state.
template <typename Rule, int kWhich, typename Fn>
void visit_state(const KernelArgs& a, const Fn& fn) {
  if constexpr (kWhich < Rule::kStates)
    if (a.out(kWhich + 1).type->dtype == Dtype::bf16) return fn(__nv_bfloat16{});
  fn(float{});
}

template <typename Rule>
void launch_update(const KernelArgs& a, const Rule& rule) {
  const UpdateCuda u(a, Rule::kStates + 1);
  if (u.n == 0) return;
  visit_device_float(a.in(UpdatePorts::kParam).type->dtype, [&](auto p) {
    visit_device_float(a.in(UpdatePorts::kGrad).type->dtype, [&](auto g) {
      visit_state<Rule, 0>(a, [&](auto m) {
        visit_state<Rule, 1>(a, [&](auto v) {
          launch_after_previous(update<Rule, decltype(p), decltype(g), decltype(m), decltype(v)>,
                                blocks_for(ceil_div(u.n, 8), kUpdateThreads, kUpdateBlocks<Rule>),
                                kUpdateThreads, 0, stream_of(a), u, rule);
        });
      });
    });
  });
}

}  // namespace snug::ops

#include "ops/optimizer/optimizer_cuda.h"
#include "ops/optimizer/update_cuda.cuh"

namespace snug::ops {
namespace {

struct Sgd {
  static constexpr int kStates = 0;
  float lr;  // made by start

  bool operator==(const Sgd&) const = default;
  static Sgd of(const Attrs&) { return {}; }
  __device__ void start(double rate, int64_t) { lr = static_cast<float>(rate); }
  __device__ NoCursor cursor(int64_t) const { return {}; }
  __device__ float operator()(NoCursor&, float g, float*) const { return lr * g; }
};

struct Momentum {
  static constexpr int kStates = 1;
  float momentum;
  float lr;  // made by start

  bool operator==(const Momentum&) const = default;
  static Momentum of(const Attrs& attrs) {
    return {.momentum = static_cast<float>(attrs.f("momentum"))};
  }
  __device__ void start(double rate, int64_t) { lr = static_cast<float>(rate); }
  __device__ NoCursor cursor(int64_t) const { return {}; }
  __device__ float operator()(NoCursor&, float g, float* sum) const {
    *sum = momentum * *sum + g;
    return lr * *sum;
  }
};

}  // namespace

void sgd_cuda(const KernelArgs& a) { launch_updates<Sgd>({&a, 1}); }
void sgd_many_cuda(std::span<const KernelArgs> all) { launch_updates<Sgd>(all); }

void sgd_momentum_cuda(const KernelArgs& a) { launch_updates<Momentum>({&a, 1}); }
void sgd_momentum_many_cuda(std::span<const KernelArgs> all) { launch_updates<Momentum>(all); }

}  // namespace snug::ops

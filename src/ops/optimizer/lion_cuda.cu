#include "ops/optimizer/optimizer_cuda.h"
#include "ops/optimizer/update_cuda.cuh"

namespace snug::ops {
namespace {

struct Lion {
  static constexpr int kStates = 1;
  float new1, new2;
  float lr;  // made by start

  bool operator==(const Lion&) const = default;
  static Lion of(const Attrs& attrs) {
    return {.new1 = static_cast<float>(1 - attrs.f("beta1")),
            .new2 = static_cast<float>(1 - attrs.f("beta2"))};
  }
  __device__ void start(double rate, int64_t) { lr = static_cast<float>(rate); }
  __device__ NoCursor cursor(int64_t) const { return {}; }
  __device__ float operator()(NoCursor&, float g, float* m) const {
    const float along = *m + new1 * (g - *m);
    const float sign = static_cast<float>(along > 0) - static_cast<float>(along < 0);
    *m += new2 * (g - *m);
    return lr * sign;
  }
};

}  // namespace

void lion_cuda(const KernelArgs& a) { launch_updates<Lion>({&a, 1}); }
void lion_many_cuda(std::span<const KernelArgs> all) { launch_updates<Lion>(all); }

}  // namespace snug::ops

#include "gpu_train/gpu_run.h"

#include "hal/cuda/probe.h"

namespace snug {

bool has_gpu() {
  static const bool has = why_no_cuda().empty();
  return has;
}

CudaDevice& gpu() {
  static const std::unique_ptr<CudaDevice> device = cuda_device();
  return *device;
}

BuildOptions as_on_gpu(BuildOptions build) {
  build.residual_in_product = true;
  return build;
}

Recipe as_on_gpu(Recipe recipe) {
  recipe.fused_recompute = true;
  return recipe;
}

}  // namespace snug

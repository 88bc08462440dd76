#include "gpu_train/gpu_run.h"

namespace snug {

CudaDevice& gpu() {
  static const std::unique_ptr<CudaDevice> device = cuda_device();
  return *device;
}

BuildOptions as_on_gpu(BuildOptions build) {
  build.residual_in_matmul = true;
  build.fused_loss = true;
  return build;
}

Recipe as_on_gpu(Recipe recipe) {
  recipe.fused_recompute = true;
  return recipe;
}

}  // namespace snug

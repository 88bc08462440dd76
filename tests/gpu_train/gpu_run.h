// What the tests of whole runs on a GPU share: one device for the process, and a skip where there
// is none.
#pragma once

#include <gtest/gtest.h>
#include <omp.h>

#include "hal/cuda/cuda_device.h"
#include "hal/testing/needs_cuda.h"
#include "support/small_run.h"

namespace snug {

// Opened at the first call. Only where there is one.
CudaDevice& gpu();

inline const ExecutorOptions kDeterministic{.math = {.deterministic = true}};

inline SmallRun gpu_run(const std::string& model, const BuildOptions& build, const Recipe& recipe,
                        const ExecutorOptions& options = kDeterministic) {
  return {model, build, recipe, options, &gpu()};
}

// As the command line builds models for a GPU.
BuildOptions as_on_gpu(BuildOptions build);
Recipe as_on_gpu(Recipe recipe);

// Tests of this fixture skip where there is no GPU. What they compare with on the CPU is small, and
// fastest on a few threads.
class OnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    omp_set_num_threads(4);
    SNUG_NEEDS_CUDA;
  }
};

}  // namespace snug

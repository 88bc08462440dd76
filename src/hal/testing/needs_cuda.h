// Put first in every test that needs a GPU: without one the test is skipped. Under `./dev
// gpu-test`, which has seen a GPU and sets SNUG_GPU_TEST, it fails instead: nothing passes by being
// skipped.
//
//   TEST(CudaGemm, Multiplies) { SNUG_NEEDS_CUDA; ... }
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "hal/cuda/probe.h"

#define SNUG_NEEDS_CUDA                                                      \
  if (const std::string why_not = ::snug::why_no_cuda(); !why_not.empty()) { \
    if (std::getenv("SNUG_GPU_TEST") != nullptr)                             \
      FAIL() << "a GPU is here, but CUDA cannot use it: " << why_not;        \
    GTEST_SKIP() << "no CUDA device here: " << why_not;                      \
  }                                                                          \
  static_assert(true, "a semicolon follows")

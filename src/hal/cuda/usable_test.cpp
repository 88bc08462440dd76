#include "hal/cuda/usable.h"

#include <gtest/gtest.h>

namespace snug {
namespace {

using Start = CudaAnswers::Start;

TEST(Usable, GpuNeedsNoReason) { EXPECT_EQ(why_unusable({.gpus = 1, .driver = 13000}), ""); }

TEST(Usable, ReasonsAreSentencesWithNumbers) {
  EXPECT_EQ(why_unusable({.start = Start::fails}), "no NVIDIA driver answers on this machine");
  EXPECT_EQ(why_unusable({.start = Start::driver_too_old, .driver = 11040, .toolkit = 13000}),
            "the NVIDIA driver is too old: it supports CUDA 11.4, this build needs 13.0");
  EXPECT_EQ(why_unusable({.start = Start::no_gpu, .driver = 13000, .visible = "-1"}),
            "CUDA_VISIBLE_DEVICES='-1' leaves no GPU to use");
  EXPECT_EQ(why_unusable({.start = Start::no_gpu, .driver = 13000}),
            "the NVIDIA driver finds no GPU");
  EXPECT_EQ(why_unusable({.start = Start::fails, .driver = 13000, .failure = "system not ready"}),
            "CUDA does not start: system not ready");
}

}  // namespace
}  // namespace snug

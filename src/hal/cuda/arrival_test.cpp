#include "hal/cuda/arrival.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "hal/testing/needs_cuda.h"

namespace snug::cuda {
namespace {

// What fills the words' source may come late on a GPU that others use: jobs that shared one waited for
// words for good.
TEST(CudaArrival, WorksWithLateDefaultStream) {
  SNUG_NEEDS_CUDA;
  static constexpr auto kLate = std::chrono::milliseconds(200);
  cudaStream_t lane = nullptr;
  check(cudaStreamCreateWithFlags(&lane, cudaStreamNonBlocking), "making a stream");
  check(cudaFree(nullptr), "beginning");
  check(cudaLaunchHostFunc(
            cudaStreamLegacy, [](void*) { std::this_thread::sleep_for(kLate); }, nullptr),
        "delaying the default stream");
  ArrivalWords words;
  uint32_t* word = words.take();
  *word = 0;
  words.set(word, lane);
  check(cudaStreamSynchronize(lane), "waiting for a stream");
  EXPECT_NE(std::atomic_ref(*word).load(), 0U);
  words.give_back(word);
  cudaStreamDestroy(lane);
}

}  // namespace
}  // namespace snug::cuda

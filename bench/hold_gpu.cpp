// hold_gpu BYTES: takes a GPU's memory until only BYTES are free, says so, and holds it until its
// input ends. What another process then can have is what a smaller GPU would give it.
//
//   mkfifo ask; build/bench/hold_gpu 8589934592 < ask &    exec 3> ask    ...    exec 3>&-
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "hal/cuda/cuda_device.h"

namespace {

constexpr int64_t kPiece = int64_t{2} << 20;  // what the driver hands out

// All at once, and then the pieces that the driver's own share has left.
std::vector<std::unique_ptr<snug::Memory>> hold_all_but(int64_t leave, snug::CudaDevice& gpu) {
  std::vector<std::unique_ptr<snug::Memory>> held;
  while (gpu.memory().free >= leave + kPiece)
    held.push_back(gpu.allocate((gpu.memory().free - leave) / kPiece * kPiece));
  return held;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 2) throw snug::usage_error("usage: hold_gpu BYTES_TO_LEAVE");
    const auto gpu = snug::cuda_device();
    const auto held = hold_all_but(snug::parse_bytes(argv[1]), *gpu);
    gpu->synchronise();
    fmt::print("free {}\n", gpu->memory().free);
    std::fflush(stdout);
    while (std::getchar() != EOF) {
    }
    return 0;
  } catch (const snug::Error& error) {
    fmt::print(stderr, "hold_gpu: {}\n", error.what());
    return static_cast<int>(error.code());
  }
}

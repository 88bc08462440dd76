// A test switch: with SNUG_GPU_AS=rtx4090 in the environment kernels take the shapes and paths that
// they would take on that card, and a launch that it would refuse is refused. Only what our kernels
// ask for is capped: cuBLASLt and cuDNN look at the real device, and the code that runs is the one
// that was compiled for it (`./dev build --ptx` for that of older ones).
//
//   SNUG_GPU_AS=rtx4090 ./dev gpu-test
#pragma once

#include <string_view>

#include "kernels/cuda/device.h"

namespace snug::ops {

// Of each fact the smaller one; what the card lacks is off. Throws where it knows no such card.
DeviceFacts as_card(const DeviceFacts& real, std::string_view card);

}  // namespace snug::ops

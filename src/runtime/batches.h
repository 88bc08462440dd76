// Which calls of a program may be handed to their kernel together (Kernel::run_many).
#pragma once

#include <span>
#include <vector>

#include "ir/op_def.h"
#include "ir/order.h"

namespace snug {

// The sizes of all batches, each at the index of its first call; kernels[i] runs calls[i]. Calls of
// a batch follow each other, have the same kernel and predicate, and none writes bytes that another
// one touches. A call alone is a batch of 1, and so is one without a kernel (nullptr). `order`, where
// there are several lanes, has the calls as its ops: a batch is on one lane, and only its first call
// waits for other lanes.
std::vector<size_t> batch_sizes(std::span<const Kernel* const> kernels,
                                std::span<const KernelArgs> calls, const Order* order = nullptr);

}  // namespace snug

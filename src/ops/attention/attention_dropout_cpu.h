// Dropout on attention probabilities: element (h*T + i)*T + j, of all ranks' heads, of global sample `sample + b`,
// whatever the tiling.
#pragma once

#include "ir/op_def.h"
#include "ops/random.h"

namespace snug::ops {

struct AttentionDropout {
  Key key = 0;
  int64_t sample = 0;       // global index of the batch's first sample
  int64_t first_drawn = 0;  // element of the first head here: attribute `first_head`
  uint32_t threshold = 0;   // 0: off
  float scale = 1;          // 1 / (1 - p): what a kept probability is multiplied by

  bool on() const { return threshold != 0; }

  // factors[j] = scale or 0 for n elements of sample b from `first` on.
  void factors(int64_t b, int64_t first, int64_t n, float* factors) const;
};

// From the attributes, and inputs seed, step and sample at `port` and the two after it.
AttentionDropout attention_dropout(const KernelArgs& a, size_t port);

}  // namespace snug::ops

// Functions of the activations on the CPU.
#pragma once

#include "base/vec_math.h"

namespace snug::ops {

// gelu(x) = x P(x): P and its slope. 0.5 (1 + tanh u) is sigmoid(2u).
struct Gate {
  float value, slope;
};

struct TanhForm {
  static Gate gate(float x) {
    constexpr float kTwoScale = 1.59576912F;  // 2 sqrt(2 / pi)
    const float p = fast_sigmoid(kTwoScale * (x + 0.044715F * x * x * x));
    return {p, p * (1 - p) * kTwoScale * (1 + 3 * 0.044715F * x * x)};
  }
};

}  // namespace snug::ops

// What the losses ask of their targets, and the targets of their samples.
#pragma once

#include <algorithm>

#include "ops/infer.h"

namespace snug::ops {

// Targets are i32, one for every row of the op's first input.
inline void require_targets(const OpView& op, size_t port) {
  const auto rows = op.shape(0).dims();
  op.require(!rows.empty(), "{} {} has no last axis", op.def.inputs[0].name, op.in(0).text());
  const Type want{Dtype::i32, Shape(rows.first(rows.size() - 1))};
  op.require(op.in(port) == want, "targets {} do not match {} {}: they must be {}",
             op.in(port).text(), op.def.inputs[0].name, op.in(0).text(), want.text());
}

inline void require_scalar(const OpView& op, size_t port) {
  require_type(op, port, {Dtype::f32, {}});
}

// Over the whole vocabulary; every third does not count.
inline SampleInput sample_targets(Shape rows, int64_t V) {
  const auto fill = [V](RefTensor& self, std::span<const RefTensor>) {
    for (size_t i = 0; i < self.v.size(); ++i) {
      self.v[i] = i % 3 == 1 ? -1 : static_cast<double>((static_cast<int64_t>(i) * 7 + V - 1) % V);
    }
  };
  return {{Dtype::i32, rows}, {.compute = fill}};
}

}  // namespace snug::ops

// The last line of a reference whose op has accumulators: out = accumulator + result.
//
//   void reference_grad(const RefArgs& a) { ...; add_accumulators(rms_norm_grad_def, a); }
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

inline void add_accumulators(const OpDef& def, const RefArgs& a) {
  for (const Accumulate& sum : def.accumulate) {
    const auto port = static_cast<size_t>(sum.input);
    if (!a.has(port)) continue;
    std::vector<double>& out = a.out(static_cast<size_t>(sum.output)).v;
    for (size_t i = 0; i < out.size(); ++i) out[i] += a.in(port).v[i];
  }
}

}  // namespace snug::ops

// Updates of fp32 masters: the op of a method that also writes the weight of 2 bytes that forward
// reads, rounded to nearest from the new master, with the bits of an `assign` after the update.
//
//   inputs   param, grad, <states>, optional weight, lr, step, scale, optional seed
//   outputs  param, <states>, weight: each the next version of its input
//
// On the CPU the weight may be left out, and an attribute of its name says its type: it is then made
// anew, and where the predicate turns the update off, from the master as it is.
//
//   const OpDef adamw_master_def = on_master<adamw_def>("adamw_master");
#pragma once

#include "ops/optimizer/update_op.h"

namespace snug::ops {

// `method` with the port `weight`, and its kernels for fp32; `cpu` is that of the CPU.
OpDef on_master(const OpDef& method, std::string_view kind, KernelFn cpu);
// Where the predicate turns the op off: makes the weight anew if it has none. Else false.
bool skips_update(const KernelArgs& a);
// Those of the method's samples that have an fp32 parameter, with a weight.
std::vector<Sample> master_samples(const OpDef& method);

template <const OpDef& method>
OpDef on_master(std::string_view kind) {
  OpDef def = on_master(method, kind, [](const KernelArgs& a) {
    if (!skips_update(a)) method.kernel(Backend::cpu, Dtype::f32)(a);
  });
  def.samples = [] { return master_samples(method); };
  return def;
}

}  // namespace snug::ops

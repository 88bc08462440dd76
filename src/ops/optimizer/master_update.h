// Updates of fp32 masters: the op of a method that also writes the weight of 2 bytes that forward
// reads, rounded to nearest from the new master, with the bits of an `assign` after the update.
//
//   inputs   param, grad, <states>, weight, lr, step, scale, optional seed
//   outputs  param, <states>, weight: each the next version of its input
//
//   const OpDef adamw_master_def = on_master<adamw_def>("adamw_master");
#pragma once

#include "ops/optimizer/update_op.h"

namespace snug::ops {

// `method` with the port `weight`, and its kernels for fp32.
OpDef on_master(const OpDef& method, std::string_view kind);
// Those of the method's samples that have an fp32 parameter, with a weight.
std::vector<Sample> master_samples(const OpDef& method);

template <const OpDef& method>
OpDef on_master(std::string_view kind) {
  OpDef def = on_master(method, kind);
  def.samples = [] { return master_samples(method); };
  return def;
}

}  // namespace snug::ops

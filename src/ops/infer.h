// Rules that the `infer` of many ops share.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

// An optional input that the result is added to has the result's type.
inline void require_sum(const OpView& op, size_t port, const Type& result) {
  if (!op.has(port)) return;
  op.require(op.in(port) == result, "{} {} differs from the result {}", op.def.inputs[port].name,
             op.in(port).text(), result.text());
}

}  // namespace snug::ops

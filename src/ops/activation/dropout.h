// dropout: y = x / (1 - p) where the element is kept, 0 where it is dropped. The mask is a pure
// function of seed, step, global sample, element and the op's own name: it is never stored, and
// backward is the same op on dy.
//
//   ValueId y = dropout(b, "mlp.dropout", x, 0.1, random);   // dim 0 of x counts samples
#pragma once

#include "ir/builder.h"
#include "ops/random.h"

namespace snug::ops {

extern const OpDef dropout_def;  // (x, seed, step, sample) -> y; attrs p, key

ValueId dropout(Builder& b, std::string_view name, ValueId x, double p, const Random& random);

}  // namespace snug::ops

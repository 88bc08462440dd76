// The residual connection and the norm after it, in one sweep: h = x + delta; y = norm(h).
#pragma once

#include "ir/value.h"

namespace snug::ops {

struct ResidualNorm {
  ValueId h;  // the residual stream, for the next connection
  ValueId y;  // its norm
};

}  // namespace snug::ops

// add: y = a + b, both of one type. y may alias a or b.
//
//   ValueId h = add(b, "residual", x, delta);
#pragma once

#include "ir/builder.h"

namespace snug::ops {

extern const OpDef add_def;  // (a, b) -> y

ValueId add(Builder& b, std::string_view name, ValueId a, ValueId other);

}  // namespace snug::ops

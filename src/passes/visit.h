// A value's stay on the device, away from its home (passes/homes.cpp).
#pragma once

#include <cstdint>
#include <map>

#include "ir/order.h"

namespace snug {

// From the first use of a value in some segments to the last: for so long it has bytes on the
// device.
struct Visit {
  Extent bytes;  // of the value: all, or the slice that an update works on
  int32_t first_segment = 0;
  int32_t first_op = 0, last_op = 0;  // that use it
  int32_t last_write = -1;
  bool brought = true;                    // else its first op makes all of it
  bool given_up = false;                  // what its ops write does not go home
  int32_t after = -1;                     // the last op before it that wrote them at home
  ValueId whole = {};                     // on the device: all of these bytes, as they were first
  ValueId latest = {};                    // their last version
  std::map<ValueId, ValueId> parts = {};  // parts of what they were before -> the same of `whole`

  bool holds(const Extent& part) const {
    return bytes.root == part.root && bytes.begin <= part.begin && part.end <= bytes.end;
  }
};

}  // namespace snug

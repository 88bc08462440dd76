// Which values hold bytes of a space, and when: placement and the memory breakdown both use this.
#pragma once

#include <algorithm>

#include "ir/program.h"
#include "placement/packing.h"

namespace snug {

// Views and versions share another value's bytes; a local that no op touches has no lifetime and
// holds none.
inline bool resides(const Value& value, Space space) {
  return value.owns_bytes() && value.space == space && (value.shared() || value.live);
}
inline bool resides_shared(const Value& value, Space space) {
  return value.shared() && resides(value, space);
}
inline bool resides_local(const Value& value, Space space, int32_t program) {
  return !value.shared() && value.program == program && resides(value, space);
}

// The life of a local that resides somewhere. Before the first op is as good as during it.
inline Block block_of(const Value& value) {
  return {value.storage_bytes(), std::max(value.live->first, 0), value.live->last};
}

}  // namespace snug

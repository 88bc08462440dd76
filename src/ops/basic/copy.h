// copy: the same bytes in other memory; the op that moves values between device, host and disk.
//
//   ValueId staged = copy(b, "m.to_device", m_on_host, Space::device);
#pragma once

#include "ir/builder.h"

namespace snug::ops {

extern const OpDef copy_def;  // (x) -> y; y's space is written on the value

ValueId copy(Builder& b, std::string_view name, ValueId x, Space to = Space::device);

}  // namespace snug::ops

#pragma once

#include <cstdint>

namespace snug::ops {

enum class AttentionKind : uint8_t { standard, chunked, flash };

}  // namespace snug::ops

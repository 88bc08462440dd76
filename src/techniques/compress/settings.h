// --compress: how kept activations are stored between forward and backward.
#pragma once

#include "settings/setting_text.h"

namespace snug {

enum class CompressKind : uint8_t { none, int8 };
template <>
inline constexpr auto kWords<CompressKind> =
    std::to_array<Word<CompressKind>>({{"none", CompressKind::none}, {"int8", CompressKind::int8}});

}  // namespace snug

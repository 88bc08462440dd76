// --base-dtype: how frozen weights are stored.
#pragma once

#include "settings/setting_text.h"

namespace snug {

// As they are computed with, or in fewer bits.
enum class BaseKind : uint8_t { plain, nf4, int8 };
template <>
inline constexpr auto kWords<BaseKind> = std::to_array<Word<BaseKind>>({{"auto", BaseKind::plain},
                                                                        {"nf4", BaseKind::nf4},
                                                                        {"int8", BaseKind::int8}});

}  // namespace snug

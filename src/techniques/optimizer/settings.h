// --optimizer, --state-dtype and --fold-update.
#pragma once

#include "settings/setting_text.h"

namespace snug {

enum class OptimizerKind : uint8_t { adamw, adamw8bit, adam_mini, lion, sgd };
template <>
inline constexpr auto kWords<OptimizerKind> =
    std::to_array<Word<OptimizerKind>>({{"adamw", OptimizerKind::adamw},
                                        {"adamw8bit", OptimizerKind::adamw8bit},
                                        {"adam-mini", OptimizerKind::adam_mini},
                                        {"lion", OptimizerKind::lion},
                                        {"sgd", OptimizerKind::sgd}});

// Of the optimizer's moments.
enum class StateType : uint8_t { fp32, bf16 };
template <>
inline constexpr auto kWords<StateType> =
    std::to_array<Word<StateType>>({{"fp32", StateType::fp32}, {"bf16", StateType::bf16}});

// Are layers updated on the way through the next step's first forward?
enum class FoldUpdate : uint8_t { off, on };
template <>
inline constexpr auto kWords<FoldUpdate> =
    std::to_array<Word<FoldUpdate>>({{"on", FoldUpdate::on}, {"off", FoldUpdate::off}});

}  // namespace snug

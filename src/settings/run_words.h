// Words of options that say where a run runs and what it reads, and are no technique's.
#pragma once

#include "settings/setting_text.h"

namespace snug {

// --device
enum class DeviceChoice : uint8_t { cpu, cuda, null };
template <>
inline constexpr auto kWords<DeviceChoice> = std::to_array<Word<DeviceChoice>>(
    {{"cpu", DeviceChoice::cpu}, {"cuda", DeviceChoice::cuda}, {"null", DeviceChoice::null}});

// --tune: how a GPU's matmuls are timed before the first step
enum class Tune : uint8_t { quick, thorough };
template <>
inline constexpr auto kWords<Tune> = std::to_array<Word<Tune>>({{"short", Tune::quick},
                                                                {"long", Tune::thorough}});

// --init
enum class StartFrom : uint8_t { scratch, load };
template <>
inline constexpr auto kWords<StartFrom> =
    std::to_array<Word<StartFrom>>({{"scratch", StartFrom::scratch}, {"load", StartFrom::load}});

// --loss-on: which tokens of prompts and conversations are learned
enum class LossOn : uint8_t { completion, all };
template <>
inline constexpr auto kWords<LossOn> =
    std::to_array<Word<LossOn>>({{"completion", LossOn::completion}, {"all", LossOn::all}});

// --long: what becomes of a sample that is longer than a row
enum class LongSamples : uint8_t { truncate, split, refuse };
template <>
inline constexpr auto kWords<LongSamples> =
    std::to_array<Word<LongSamples>>({{"truncate", LongSamples::truncate},
                                      {"split", LongSamples::split},
                                      {"refuse", LongSamples::refuse}});

// --lr-scale: how the learning rate grows with the sequences of a step
enum class LrScale : uint8_t { none, linear, sqrt };
template <>
inline constexpr auto kWords<LrScale> = std::to_array<Word<LrScale>>({{"none", LrScale::none},
                                                                      {"linear", LrScale::linear},
                                                                      {"sqrt", LrScale::sqrt}});

}  // namespace snug

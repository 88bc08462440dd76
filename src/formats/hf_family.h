// What the readers of config.json's families share (hf_config.cpp, hf_rotary.cpp): the limits, and
// how fields that several families have are read into an HfConfig.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "formats/hf_config.h"
#include "formats/hf_fields.h"

namespace snug {

// Beyond any model that exists, and small enough that no product of two of them and a layer count
// passes 63 bits.
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxWidth = 1 << 20;
constexpr int64_t kMaxHeads = 1 << 14;
constexpr int64_t kMaxHeadDim = 1 << 12;
constexpr int64_t kMaxInner = 1 << 23;
constexpr int64_t kMaxVocab = 1 << 26;
constexpr int64_t kMaxPositions = 1 << 28;
constexpr int64_t kMaxTypes = 1 << 10;
constexpr int64_t kMaxAttentionWidth = 1 << 22;

// Refuses a flag that is not as Snug supports it.
void must_be(const HfFields& f, std::string_view key, bool supported);

// What the inner activation of the MLP may be: one function, or a gate beside another projection.
enum class HfGate : uint8_t { none, silu, gelu };
void read_activation(const HfFields& f, HfConfig& c, std::string_view key, std::string otherwise,
                     HfGate gate);

// head_dim from hidden_size where the file gives none, and the divisions that attention relies on.
void settle_heads(const HfFields& f, HfConfig& c, std::string_view heads_key, bool any_head_dim);

// What torch does with padding_idx: a negative one counts from the end of the vocabulary.
std::optional<int64_t> read_padding(const HfFields& f, const HfConfig& c,
                                    std::optional<int64_t> otherwise);

// The families with rotary positions, by c.model_type.
void read_rotary(const HfFields& f, HfConfig& c);

}  // namespace snug

// What the families share: limits, how fields that several of them have are read and written, and
// the parts that all have.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "formats/json_fields.h"
#include "models/families/hf_config.h"
#include "models/parts/model_parts.h"

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
void must_be(const JsonFields& f, std::string_view key, bool supported);

// What the inner activation of the MLP may be: one function, or a gate with another projection.
enum class HfGate : uint8_t { none, silu, gelu };
void read_activation(const JsonFields& f, HfConfig& c, std::string_view key, std::string otherwise,
                     HfGate gate);

// head_dim from hidden_size where the file gives none, and the divisions that attention relies on.
void settle_heads(const JsonFields& f, HfConfig& c, std::string_view heads_key, bool any_head_dim);

// What torch does with padding_idx: a negative one counts from the end of the vocabulary.
std::optional<int64_t> read_padding(const JsonFields& f, const HfConfig& c,
                                    std::optional<int64_t> otherwise);

// vocab_size, initializer_range and tie_word_embeddings.
void write_vocabulary(const HfConfig& c, OrderedJson& json);
// These and the sizes, under the names that most families use.
void write_sizes(const HfConfig& c, OrderedJson& json, const char* activation_key = "hidden_act");

// What all families take from their configuration in the same way: sizes, biases, dropout. Tensors
// have no names yet, layers neither.
parts::Block common_block(const HfConfig& hf);
// One stack of such blocks; where the configuration gives layers a window, these have it.
ModelParts common_parts(const HfConfig& hf, const parts::Block& block);

}  // namespace snug

// What the families with rotary positions share: how their files give sizes and positions, and the
// parts of Llama, from which each of them says what differs.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "models/families/common.h"
#include "models/families/family.h"

namespace snug {

// What the configuration class of a family says where a file does not.
struct RotaryDefaults {
  int64_t vocab = 0, width = 0, inner = 0, layers = 0, heads = 0, positions = 0;
  double eps = 0;
  const char* eps_key = "rms_norm_eps";
  std::optional<int64_t> kv_heads, head_dim, padding;
  bool tied = false;
};
void read_rotary_sizes(const JsonFields& f, HfConfig& c, const RotaryDefaults& d);
// The same, head_dim and the padding token.
void read_llama_sizes(const JsonFields& f, HfConfig& c, const RotaryDefaults& d);

// Where a family has its base and its part, and what they are where no field names them.
struct RopeFields {
  const char* theta_key = "rope_theta";
  const char* part_key = "partial_rotary_factor";
  double theta = HfRope{}.theta;
  double part = 1;
  bool whole_heads = true;  // no other part is supported
};
// Both spellings: rope_parameters (transformers 5), or rope_theta and rope_scaling.
HfRope read_rope(const JsonFields& f, const RopeFields& d, int64_t positions);
// r: rope_parameters or rope_scaling, f: the whole file.
HfRope rope_of(const JsonFields& f, const JsonFields& r, const RopeFields& d, int64_t positions);
// Refuses a part of the head, which `key` names, that is not pairs of elements.
void require_pairs(const JsonFields& f, const HfConfig& c, std::string_view key);

// The sizes, head_dim, norm and dropout of attention.
void write_llama_sizes(const HfConfig& c, OrderedJson& json,
                       const char* activation_key = "hidden_act");
OrderedJson rope_scaling(const HfRope& rope);
OrderedJson rope_parameters(const HfRope& rope);
// Both spellings, which agree: transformers 4 reads base and rope_scaling, 5 reads rope_parameters.
// Without `part_key` the family has no field for the part of a head.
void write_rope(const HfConfig& c, OrderedJson& json, const char* theta_key = "rope_theta",
                const char* part_key = nullptr);

// Rotary positions, rms norms before each part, grouped-query attention, SwiGLU.
parts::Block llama_block(const HfConfig& hf);
// Norms of queries and keys.
void add_qk_norm(parts::Attention& a, parts::Attention::QkNorm kind);
// A model of such blocks, with Llama's names for what is outside them.
ModelParts llama_parts(const HfConfig& hf, const parts::Block& block);

// A published model of a rotary family.
struct RotarySize {
  std::string_view name, notes;
  int64_t C, L, H, K, F, V, positions;
  double eps, theta;
  bool tied = false;
  std::string_view more = "";  // fields that others of the family do not have
};
std::vector<CatalogueRow> published_rotary(std::string_view model_type,
                                           std::span<const RotarySize> sizes,
                                           std::string_view eps_key = "rms_norm_eps",
                                           std::string_view theta_key = "rope_theta");

}  // namespace snug

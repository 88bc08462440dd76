// Gemma 3, its text: norms around each part, whose weights are stored around 0, norms of queries and
// keys, a gelu gate, scaled embeddings, and layers with a window between those without.
#include <cmath>

#include "models/model_config.h"

namespace snug {

ModelConfig gemma3_config(const HfConfig& hf) {
  ModelConfig c = qwen3_config(hf);
  c.norm_place = NormPlace::around_part;
  c.norm_offset = 1;
  c.activation = Activation::geglu;
  c.local_theta = hf.local_theta;
  c.embedding_scale = std::sqrt(static_cast<double>(c.C));
  if (hf.query_scalar != c.D) c.score_scale = 1 / std::sqrt(static_cast<double>(hf.query_scalar));
  c.names.attention_part_norm = "post_attention_layernorm";
  c.names.mlp_norm = "pre_feedforward_layernorm";
  c.names.mlp_part_norm = "post_feedforward_layernorm";
  return c;
}

}  // namespace snug

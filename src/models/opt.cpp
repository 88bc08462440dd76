// OPT: learned positions, whose table has two rows before the first, layer norms before each part,
// relu, tied head.
#include "models/model_config.h"

namespace snug {

ModelConfig opt_config(const HfConfig& hf) {
  ModelConfig c = common_config(hf);
  c.norm = NormKind::layer_norm;
  c.positions = Positions::learned;
  c.first_position = 2;
  c.layer_name = "layers";
  c.names = {
      .embedding = "model.decoder.embed_tokens",
      .positions = "model.decoder.embed_positions",
      .layer = "model.decoder.layers",
      .qkv = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
      .mlp_in = {"fc1"},
      .attention_out = "self_attn.out_proj",
      .attention_norm = "self_attn_layer_norm",
      .mlp_out = "fc2",
      .mlp_norm = "final_layer_norm",
      .final_norm = "model.decoder.final_layer_norm",
      .head = "lm_head",
  };
  return c;
}

}  // namespace snug

// GPT-2: learned positions, layer norms before each part, tied head. Its Conv1D weights are stored
// [in, out] and are used so; q, k and v are packed in the checkpoint itself.
#include <cmath>

#include "models/model_config.h"

namespace snug {

ModelConfig gpt2_config(const HfConfig& hf) {
  ModelConfig c = common_config(hf);
  c.norm = NormKind::layer_norm;
  c.positions = Positions::learned;
  c.weight_in_out = true;
  c.residual_init_std = c.init_std / std::sqrt(2.0 * static_cast<double>(c.L));
  c.layer_name = "h";
  c.names = {
      .embedding = "transformer.wte",
      .positions = "transformer.wpe",
      .layer = "transformer.h",
      .qkv = {"attn.c_attn"},
      .mlp_in = {"mlp.c_fc"},
      .attention_out = "attn.c_proj",
      .attention_norm = "ln_1",
      .mlp_out = "mlp.c_proj",
      .mlp_norm = "ln_2",
      .final_norm = "transformer.ln_f",
      .head = "lm_head",
  };
  return c;
}

}  // namespace snug

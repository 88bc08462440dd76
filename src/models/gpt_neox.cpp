// GPT-NeoX (Pythia) and StableLM: layer norms, rotary positions on a part of each head, and layers
// whose attention and MLP may read the same sum.
#include "models/model_config.h"

namespace snug {

// Otherwise as Llama. Where its parts read the same sum they share its norm, too.
ModelConfig stablelm_config(const HfConfig& hf) {
  ModelConfig c = llama_config(hf);
  c.norm = NormKind::layer_norm;
  c.parallel = hf.parallel_residual;
  if (c.parallel) c.names.mlp_norm = "";
  return c;
}

// The checkpoint packs q, k and v of each head.
ModelConfig gpt_neox_config(const HfConfig& hf) {
  ModelConfig c = llama_config(hf);
  c.norm = NormKind::layer_norm;
  c.parallel = hf.parallel_residual;
  c.qkv_by_head = true;
  c.names = {
      .embedding = "gpt_neox.embed_in",
      .layer = "gpt_neox.layers",
      .qkv = {"attention.query_key_value"},
      .mlp_in = {"mlp.dense_h_to_4h"},
      .attention_out = "attention.dense",
      .attention_norm = "input_layernorm",
      .mlp_out = "mlp.dense_4h_to_h",
      .mlp_norm = "post_attention_layernorm",
      .final_norm = "gpt_neox.final_layer_norm",
      .head = "embed_out",
  };
  return c;
}

}  // namespace snug

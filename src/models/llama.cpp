// Llama, Qwen2 and Mistral: rotary positions, rms norms before each part, grouped-query attention,
// SwiGLU. They differ in defaults, biases and windows, which their config.json has settled. Then
// those that are nearly so: Qwen3, OLMo 2 and Phi-3.
#include "models/model_config.h"

namespace snug {
namespace {

ops::RopeScaling scaling_of(const HfRope& rope) {
  using Kind = ops::RopeScaling::Kind;
  switch (rope.kind) {
    case HfRope::Kind::standard:
      return {};
    case HfRope::Kind::linear:
      return {.kind = Kind::linear, .factor = rope.factor};
    case HfRope::Kind::llama3:
      break;
  }
  return {.kind = Kind::llama3,
          .factor = rope.factor,
          .low_freq_factor = rope.low_freq_factor,
          .high_freq_factor = rope.high_freq_factor,
          .original_positions = rope.original_positions};
}

}  // namespace

ModelConfig llama_config(const HfConfig& hf) {
  ModelConfig c = common_config(hf);
  c.norm = NormKind::rms_norm;
  c.positions = Positions::rope;
  c.rope_theta = hf.rope.theta;
  c.rope_scaling = scaling_of(hf.rope);
  c.rotary_dim = hf.rotary_dim();
  c.layer_name = "layers";
  c.names = {
      .embedding = "model.embed_tokens",
      .layer = "model.layers",
      .qkv = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
      .mlp_in = {"mlp.gate_proj", "mlp.up_proj"},
      .attention_out = "self_attn.o_proj",
      .attention_norm = "input_layernorm",
      .mlp_out = "mlp.down_proj",
      .mlp_norm = "post_attention_layernorm",
      .final_norm = "model.norm",
      .head = "lm_head",
  };
  return c;
}

// Norms of queries and keys, each head alone.
ModelConfig qwen3_config(const HfConfig& hf) {
  ModelConfig c = llama_config(hf);
  c.qk_norm = QkNormKind::head;
  c.names.q_norm = "self_attn.q_norm";
  c.names.k_norm = "self_attn.k_norm";
  return c;
}

// Norms of what the parts add instead of what they read, and of all queries and keys of a token.
ModelConfig olmo2_config(const HfConfig& hf) {
  ModelConfig c = qwen3_config(hf);
  c.qk_norm = QkNormKind::token;
  c.norm_place = NormPlace::after_part;
  c.names.attention_norm = c.names.mlp_norm = "";
  c.names.attention_part_norm = "post_attention_layernorm";
  c.names.mlp_part_norm = "post_feedforward_layernorm";
  return c;
}

// The checkpoint packs q, k and v, and gate and up.
ModelConfig phi3_config(const HfConfig& hf) {
  ModelConfig c = llama_config(hf);
  c.names.qkv = {"self_attn.qkv_proj"};
  c.names.mlp_in = {"mlp.gate_up_proj"};
  return c;
}

}  // namespace snug

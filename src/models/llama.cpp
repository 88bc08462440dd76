// Llama, Qwen2 and Mistral: rotary positions, rms norms before each part, grouped-query attention,
// SwiGLU. They differ in defaults and biases, which their config.json has settled.
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

}  // namespace snug

#include "models/model_config.h"

namespace snug {

ModelConfig common_config(const HfConfig& hf) {
  ModelConfig c;
  c.family = hf.model_type;
  c.L = hf.num_hidden_layers;
  c.C = hf.hidden_size;
  c.H = hf.num_attention_heads;
  c.K = hf.num_key_value_heads;
  c.D = hf.head_dim;
  c.F = hf.intermediate_size;
  c.V = hf.vocab_size;
  c.padding = hf.padding_token.value_or(-1);
  c.max_positions = hf.max_position_embeddings;
  c.norm_eps = hf.norm_eps;
  c.tied = hf.tie_word_embeddings;
  c.qkv_bias = hf.qkv_bias;
  c.attention_out_bias = hf.attention_output_bias;
  c.mlp_bias = hf.mlp_bias;
  c.init_std = c.residual_init_std = hf.initializer_range;
  c.embedding_dropout = hf.embedding_dropout;
  c.window = hf.sliding_window.value_or(0);
  c.window_layers = hf.window_layers;
  c.attention_dropout = hf.attention_dropout;
  c.residual_dropout = hf.residual_dropout;
  switch (hf.activation) {
    case HfActivation::gelu:
      c.activation = Activation::gelu;
      break;
    case HfActivation::gelu_tanh:
      c.activation = Activation::gelu_tanh;
      break;
    case HfActivation::relu:
      c.activation = Activation::relu;
      break;
    case HfActivation::silu:
      c.activation = Activation::swiglu;
      break;
  }
  return c;
}

ModelConfig model_config(const HfConfig& hf) {
  if (hf.model_type == "gpt2") return gpt2_config(hf);
  if (hf.model_type == "bert") return bert_config(hf);
  if (hf.model_type == "qwen3") return qwen3_config(hf);
  if (hf.model_type == "olmo2") return olmo2_config(hf);
  if (hf.model_type == "phi3") return phi3_config(hf);
  if (hf.model_type == "gemma3_text") return gemma3_config(hf);
  if (hf.model_type == "stablelm") return stablelm_config(hf);
  if (hf.model_type == "gpt_neox") return gpt_neox_config(hf);
  if (hf.model_type == "opt") return opt_config(hf);
  return llama_config(hf);
}

}  // namespace snug

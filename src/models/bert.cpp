// BERT for masked language modelling: full attention, a layer norm after each residual connection,
// token types (all 0), and a head of its own before the tied decoder.
#include "models/model_config.h"

namespace snug {

ModelConfig bert_config(const HfConfig& hf) {
  ModelConfig c = common_config(hf);
  c.norm = NormKind::layer_norm;
  c.positions = Positions::learned;
  c.types = hf.type_vocab_size;
  c.norm_place = NormPlace::after_sum;
  c.causal = false;
  c.masked_head = true;
  c.layer_name = "layer";
  c.names = {
      .embedding = "bert.embeddings.word_embeddings",
      .positions = "bert.embeddings.position_embeddings",
      .types = "bert.embeddings.token_type_embeddings",
      .embedding_norm = "bert.embeddings.LayerNorm",
      .layer = "bert.encoder.layer",
      .qkv = {"attention.self.query", "attention.self.key", "attention.self.value"},
      .mlp_in = {"intermediate.dense"},
      .attention_out = "attention.output.dense",
      .attention_norm = "attention.output.LayerNorm",
      .mlp_out = "output.dense",
      .mlp_norm = "output.LayerNorm",
      .transform = "cls.predictions.transform.dense",
      .transform_norm = "cls.predictions.transform.LayerNorm",
      .head_bias = "cls.predictions",
  };
  return c;
}

}  // namespace snug

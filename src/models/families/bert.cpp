// BERT for masked language modelling: full attention, a layer norm after each residual connection,
// token types (all 0), and a head of its own before the tied decoder.
#include <fmt/format.h>

#include <array>

#include "models/families/common.h"
#include "models/families/family.h"

namespace snug {
namespace {

void read_bert(const JsonFields& f, HfConfig& c) {
  must_be(f, "is_decoder", false);
  must_be(f, "add_cross_attention", false);
  must_be(f, "tie_word_embeddings", true);
  if (const auto kind = f.text("position_embedding_type", "absolute"); kind != "absolute") {
    throw f.refusal("position_embedding_type", "is '{}', which Snug does not support", kind)
        .hint("supported: absolute");
  }
  c.vocab_size = f.size("vocab_size", 30522, kMaxVocab);
  c.padding_token = read_padding(f, c, 0);
  c.hidden_size = f.size("hidden_size", 768, kMaxWidth);
  c.intermediate_size = f.size("intermediate_size", 3072, kMaxInner);
  c.num_hidden_layers = f.size("num_hidden_layers", 12, kMaxLayers);
  c.num_attention_heads = f.size("num_attention_heads", 12, kMaxHeads);
  c.num_key_value_heads = c.num_attention_heads;
  c.max_position_embeddings = f.size("max_position_embeddings", 512, kMaxPositions);
  c.type_vocab_size = f.size("type_vocab_size", 2, kMaxTypes);
  c.norm_eps = f.positive("layer_norm_eps", 1e-12);
  c.tie_word_embeddings = true;
  c.qkv_bias = c.attention_output_bias = c.mlp_bias = true;
  c.embedding_dropout = c.residual_dropout = f.rate("hidden_dropout_prob", 0.1);
  c.attention_dropout = f.rate("attention_probs_dropout_prob", 0.1);
  read_activation(f, c, "hidden_act", "gelu", HfGate::none);
  settle_heads(f, c, "num_attention_heads", /*any_head_dim=*/false);
}

void write_bert(const HfConfig& c, OrderedJson& json) {
  write_sizes(c, json);
  json["type_vocab_size"] = c.type_vocab_size;
  json["layer_norm_eps"] = c.norm_eps;
  json["hidden_dropout_prob"] = c.residual_dropout;
  json["attention_probs_dropout_prob"] = c.attention_dropout;
}

ModelParts bert_parts(const HfConfig& hf) {
  parts::Block block = common_block(hf);
  block.norm.kind = parts::Norm::Kind::layer_norm;
  block.norm_place = parts::Block::NormPlace::after_sum;
  block.attention.causal = false;
  block.attention.qkv_tensors = {"attention.self.query", "attention.self.key",
                                 "attention.self.value"};
  block.attention.out_tensor = "attention.output.dense";
  block.mlp.in_tensors = {"intermediate.dense"};
  block.mlp.out_tensor = "output.dense";
  block.attention_norm_tensor = "attention.output.LayerNorm";
  block.mlp_norm_tensor = "output.LayerNorm";
  ModelParts m = common_parts(hf, block);
  m.embedding.types = hf.type_vocab_size;
  m.embedding.tokens_tensor = "bert.embeddings.word_embeddings";
  m.embedding.positions_tensor = "bert.embeddings.position_embeddings";
  m.embedding.types_tensor = "bert.embeddings.token_type_embeddings";
  m.embedding.norm_tensor = "bert.embeddings.LayerNorm";
  m.stacks.front().name = "layer";
  m.stacks.front().tensors = "bert.encoder.layer";
  m.head.transform = {.activation = block.mlp.activation,
                      .norm = block.norm,
                      .dense_tensor = "cls.predictions.transform.dense",
                      .norm_tensor = "cls.predictions.transform.LayerNorm",
                      .bias_tensor = "cls.predictions"};
  return m;
}

CatalogueRow bert_size(std::string_view name, std::string_view notes, int64_t C, int64_t L,
                       int64_t H) {
  return {name, notes,
          fmt::format(R"({{"model_type": "bert", "hidden_size": {},
           "num_hidden_layers": {}, "num_attention_heads": {},
           "intermediate_size": {}}})",
                      C, L, H, 4 * C)};
}

std::vector<CatalogueRow> published_bert() {
  return {
      bert_size("bert-base", "BERT base uncased, masked-language head", 768, 12, 12),
      bert_size("bert-large", "BERT large uncased, masked-language head", 1024, 24, 16),
  };
}

// Its oldest files name the parts of a norm after the paper.
constexpr std::array<OtherEnding, 2> kOldNormNames{{
    {"LayerNorm.weight", "LayerNorm.gamma"},
    {"LayerNorm.bias", "LayerNorm.beta"},
}};

}  // namespace

extern const Family bert_family{
    .model_type = "bert",
    .architecture = "BertForMaskedLM",
    .read = read_bert,
    .write = write_bert,
    .parts = bert_parts,
    .published = published_bert,
    .base_prefix = "bert.",
    .other_endings = kOldNormNames,
};

}  // namespace snug

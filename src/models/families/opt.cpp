// OPT: learned positions, whose table has two rows before the first, layer norms before each part,
// relu, tied head.
#include <fmt/format.h>

#include "models/families/common.h"
#include "models/families/family.h"

namespace snug {
namespace {

void read_opt(const JsonFields& f, HfConfig& c) {
  must_be(f, "do_layer_norm_before", true);
  must_be(f, "layer_norm_elementwise_affine", true);
  must_be(f, "_remove_final_layer_norm", false);
  if (f.rate("layerdrop", 0) != 0) {
    throw f.refusal("layerdrop", "is not 0, which Snug does not support");
  }
  c.vocab_size = f.size("vocab_size", 50272, kMaxVocab);
  c.padding_token = read_padding(f, c, 1);
  c.hidden_size = f.size("hidden_size", 768, kMaxWidth);
  const auto projected = f.nullable_size("word_embed_proj_dim", std::nullopt, kMaxWidth);
  if (projected && *projected != c.hidden_size) {
    throw f.refusal("word_embed_proj_dim", "is {} and hidden_size {}: Snug takes only equal ones",
                    *projected, c.hidden_size);
  }
  c.intermediate_size = f.size("ffn_dim", 3072, kMaxInner);
  c.num_hidden_layers = f.size("num_hidden_layers", 12, kMaxLayers);
  c.num_attention_heads = f.size("num_attention_heads", 12, kMaxHeads);
  c.num_key_value_heads = c.num_attention_heads;
  c.max_position_embeddings = f.size("max_position_embeddings", 2048, kMaxPositions);
  c.initializer_range = f.non_negative("init_std", 0.02);
  c.norm_eps = 1e-5;
  c.tie_word_embeddings = f.flag("tie_word_embeddings", true);
  c.qkv_bias = c.attention_output_bias = c.mlp_bias = f.flag("enable_bias", true);
  c.residual_dropout = f.rate("dropout", 0.1);
  c.attention_dropout = f.rate("attention_dropout", 0);
  read_activation(f, c, "activation_function", "relu", HfGate::none);
  settle_heads(f, c, "num_attention_heads", /*any_head_dim=*/false);
}

void write_opt(const HfConfig& c, OrderedJson& json) {
  json["vocab_size"] = c.vocab_size;
  json["tie_word_embeddings"] = c.tie_word_embeddings;
  json["hidden_size"] = json["word_embed_proj_dim"] = c.hidden_size;
  json["ffn_dim"] = c.intermediate_size;
  json["num_hidden_layers"] = c.num_hidden_layers;
  json["num_attention_heads"] = c.num_attention_heads;
  json["max_position_embeddings"] = c.max_position_embeddings;
  json["activation_function"] = c.hidden_act;
  json["enable_bias"] = c.mlp_bias;
  json["dropout"] = c.residual_dropout;
  json["attention_dropout"] = c.attention_dropout;
  json["init_std"] = c.initializer_range;
}

ModelParts opt_parts(const HfConfig& hf) {
  parts::Block block = common_block(hf);
  block.norm.kind = parts::Norm::Kind::layer_norm;
  block.attention.qkv_tensors = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};
  block.attention.out_tensor = "self_attn.out_proj";
  block.mlp.in_tensors = {"fc1"};
  block.mlp.out_tensor = "fc2";
  block.attention_norm_tensor = "self_attn_layer_norm";
  block.mlp_norm_tensor = "final_layer_norm";
  ModelParts m = common_parts(hf, block);
  m.embedding.first_position = 2;
  m.embedding.tokens_tensor = "model.decoder.embed_tokens";
  m.embedding.positions_tensor = "model.decoder.embed_positions";
  parts::Stack& stack = m.stacks.front();
  stack.name = "layers";
  stack.tensors = "model.decoder.layers";
  stack.norm_tensor = "model.decoder.final_layer_norm";
  m.head.tensor = "lm_head";
  return m;
}

CatalogueRow opt_size(std::string_view name, std::string_view notes, int64_t C, int64_t L,
                      int64_t H) {
  return {name, notes,
          fmt::format(R"({{"model_type": "opt", "hidden_size": {},
           "num_hidden_layers": {}, "num_attention_heads": {},
           "ffn_dim": {}}})",
                      C, L, H, 4 * C)};
}

std::vector<CatalogueRow> published_opt() {
  return {
      opt_size("opt-125m", "OPT 125M", 768, 12, 12),
      opt_size("opt-1.3b", "OPT 1.3B", 2048, 24, 32),
      opt_size("opt-2.7b", "OPT 2.7B", 2560, 32, 32),
      opt_size("opt-6.7b", "OPT 6.7B", 4096, 32, 32),
      opt_size("opt-13b", "OPT 13B", 5120, 40, 40),
      opt_size("opt-30b", "OPT 30B", 7168, 48, 56),
      opt_size("opt-66b", "OPT 66B", 9216, 64, 72),
  };
}

}  // namespace

extern const Family opt_family{
    .model_type = "opt",
    .architecture = "OPTForCausalLM",
    .read = read_opt,
    .write = write_opt,
    .parts = opt_parts,
    .published = published_opt,
    .base_prefix = "model.",
};

}  // namespace snug

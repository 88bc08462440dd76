// GPT-2: learned positions, layer norms before each part, tied head. Its Conv1D weights are stored
// [in, out] and are used so; q, k and v are packed in the checkpoint itself.
#include <fmt/format.h>

#include <cmath>

#include "models/families/common.h"
#include "models/families/family.h"

namespace snug {
namespace {

void read_gpt2(const JsonFields& f, HfConfig& c) {
  for (const char* key :
       {"scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention"}) {
    must_be(f, key, false);
  }
  must_be(f, "scale_attn_weights", true);
  const std::string_view heads = f.either("n_head", "num_attention_heads");
  c.vocab_size = f.size("vocab_size", 50257, kMaxVocab);
  c.hidden_size = f.size(f.either("n_embd", "hidden_size"), 768, kMaxWidth);
  c.num_hidden_layers = f.size(f.either("n_layer", "num_hidden_layers"), 12, kMaxLayers);
  c.num_attention_heads = f.size(heads, 12, kMaxHeads);
  c.num_key_value_heads = c.num_attention_heads;
  c.max_position_embeddings =
      f.size(f.either("n_positions", "max_position_embeddings"), 1024, kMaxPositions);
  c.intermediate_size =
      f.nullable_size("n_inner", std::nullopt, kMaxInner).value_or(4 * c.hidden_size);
  c.norm_eps = f.positive("layer_norm_epsilon", 1e-5);
  c.tie_word_embeddings = f.flag("tie_word_embeddings", true);
  c.qkv_bias = c.attention_output_bias = c.mlp_bias = true;
  c.embedding_dropout = f.rate("embd_pdrop", 0.1);
  c.attention_dropout = f.rate("attn_pdrop", 0.1);
  c.residual_dropout = f.rate("resid_pdrop", 0.1);
  read_activation(f, c, "activation_function", "gelu_new", HfGate::none);
  settle_heads(f, c, heads, /*any_head_dim=*/false);
}

// Sets `key`, or the other spelling of it where the file uses that one.
void set_either(OrderedJson& json, const char* key, const char* other, int64_t value) {
  json[json.contains(other) && !json.contains(key) ? other : key] = value;
}

void write_gpt2(const HfConfig& c, OrderedJson& json) {
  write_vocabulary(c, json);
  set_either(json, "n_embd", "hidden_size", c.hidden_size);
  set_either(json, "n_layer", "num_hidden_layers", c.num_hidden_layers);
  set_either(json, "n_head", "num_attention_heads", c.num_attention_heads);
  set_either(json, "n_positions", "max_position_embeddings", c.max_position_embeddings);
  json["n_inner"] = c.intermediate_size;
  json["activation_function"] = c.hidden_act;
  json["layer_norm_epsilon"] = c.norm_eps;
  json["embd_pdrop"] = c.embedding_dropout;
  json["attn_pdrop"] = c.attention_dropout;
  json["resid_pdrop"] = c.residual_dropout;
}

ModelParts gpt2_parts(const HfConfig& hf) {
  parts::Block block = common_block(hf);
  block.norm.kind = parts::Norm::Kind::layer_norm;
  block.weight_in_out = true;
  block.residual_init_std =
      block.init_std / std::sqrt(2.0 * static_cast<double>(hf.num_hidden_layers));
  block.attention.qkv_tensors = {"attn.c_attn"};
  block.attention.out_tensor = "attn.c_proj";
  block.mlp.in_tensors = {"mlp.c_fc"};
  block.mlp.out_tensor = "mlp.c_proj";
  block.attention_norm_tensor = "ln_1";
  block.mlp_norm_tensor = "ln_2";
  ModelParts m = common_parts(hf, block);
  m.embedding.tokens_tensor = "transformer.wte";
  m.embedding.positions_tensor = "transformer.wpe";
  parts::Stack& stack = m.stacks.front();
  stack.name = "h";
  stack.tensors = "transformer.h";
  stack.norm_tensor = "transformer.ln_f";
  m.head.tensor = "lm_head";
  return m;
}

CatalogueRow gpt2_size(std::string_view name, std::string_view notes, int64_t C, int64_t L,
                       int64_t H, std::string_view more = "") {
  return {name, notes,
          fmt::format(R"({{"model_type": "gpt2", "n_embd": {}, "n_layer": {}, "n_head": {}{}}})", C,
                      L, H, more)};
}

std::vector<CatalogueRow> published_gpt2() {
  // clang-format off
  return {
      gpt2_size("gpt2",        "GPT-2 small",                      768, 12, 12),
      gpt2_size("gpt2-medium", "GPT-2 medium",                    1024, 24, 16),
      gpt2_size("gpt2-large",  "GPT-2 large",                     1280, 36, 20),
      gpt2_size("gpt2-xl",     "GPT-2 XL",                        1600, 48, 25),
      gpt2_size("gpt3-175b",   "GPT-3 175B, all attention dense", 12288, 96, 96, R"(, "n_positions": 2048)"),
  };
  // clang-format on
}

}  // namespace

extern const Family gpt2_family{
    .model_type = "gpt2",
    .architecture = "GPT2LMHeadModel",
    .read = read_gpt2,
    .write = write_gpt2,
    .parts = gpt2_parts,
    .published = published_gpt2,
    .base_prefix = "transformer.",
};

}  // namespace snug

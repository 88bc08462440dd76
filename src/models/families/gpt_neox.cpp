// GPT-NeoX (Pythia): layer norms, rotary positions on a part of each head, and layers whose
// attention and MLP may read the same sum. The checkpoint packs q, k and v of each head.
#include <array>

#include "models/families/rotary.h"

namespace snug {
namespace {

void read_gpt_neox(const JsonFields& f, HfConfig& c) {
  read_rotary_sizes(f, c,
                    {.vocab = 50432,
                     .width = 6144,
                     .inner = 24576,
                     .layers = 44,
                     .heads = 64,
                     .positions = 2048,
                     .eps = 1e-5,
                     .eps_key = "layer_norm_eps"});
  c.num_key_value_heads = c.num_attention_heads;  // whatever the file says
  c.qkv_bias = c.attention_output_bias = f.flag("attention_bias", true);
  c.mlp_bias = true;
  settle_heads(f, c, "num_attention_heads", /*any_head_dim=*/false);
  c.parallel_residual = f.flag("use_parallel_residual", true);
  c.embedding_dropout = c.residual_dropout = f.rate("hidden_dropout", 0);
  read_activation(f, c, "hidden_act", "gelu", HfGate::none);
  c.rope = read_rope(f,
                     {.theta_key = "rotary_emb_base",
                      .part_key = "rotary_pct",
                      .part = 0.25,
                      .whole_heads = false},
                     c.max_position_embeddings);
  require_pairs(f, c, "rotary_pct");
}

void write_gpt_neox(const HfConfig& c, OrderedJson& json) {
  write_sizes(c, json);
  json["layer_norm_eps"] = c.norm_eps;
  json["use_parallel_residual"] = c.parallel_residual;
  json["attention_dropout"] = c.attention_dropout;
  json["hidden_dropout"] = c.residual_dropout;
  json["attention_bias"] = c.qkv_bias;
  write_rope(c, json, "rotary_emb_base", "rotary_pct");
}

ModelParts gpt_neox_parts(const HfConfig& hf) {
  parts::Block block = llama_block(hf);
  block.norm.kind = parts::Norm::Kind::layer_norm;
  block.parallel = hf.parallel_residual;
  block.attention.qkv_by_head = true;
  block.attention.qkv_tensors = {"attention.query_key_value"};
  block.attention.out_tensor = "attention.dense";
  block.mlp.in_tensors = {"mlp.dense_h_to_4h"};
  block.mlp.out_tensor = "mlp.dense_4h_to_h";
  ModelParts m = llama_parts(hf, block);
  m.embedding.tokens_tensor = "gpt_neox.embed_in";
  m.stacks.front().tensors = "gpt_neox.layers";
  m.stacks.front().norm_tensor = "gpt_neox.final_layer_norm";
  m.head.tensor = "embed_out";
  return m;
}

// clang-format off
constexpr std::array<RotarySize, 7> kGptNeoxSizes{{
    {"pythia-160m",  "Pythia 160M",   768, 12, 12, 12,  3072, 50304, 2048, 1e-5, 1e4},
    {"pythia-410m",  "Pythia 410M",  1024, 24, 16, 16,  4096, 50304, 2048, 1e-5, 1e4},
    {"pythia-1.4b",  "Pythia 1.4B",  2048, 24, 16, 16,  8192, 50304, 2048, 1e-5, 1e4},
    {"pythia-2.8b",  "Pythia 2.8B",  2560, 32, 32, 32, 10240, 50304, 2048, 1e-5, 1e4},
    {"pythia-6.9b",  "Pythia 6.9B",  4096, 32, 32, 32, 16384, 50432, 2048, 1e-5, 1e4},
    {"pythia-12b",   "Pythia 12B",   5120, 36, 40, 40, 20480, 50688, 2048, 1e-5, 1e4},
    {"gpt-neox-20b", "GPT-NeoX 20B", 6144, 44, 64, 64, 24576, 50432, 2048, 1e-5, 1e4, false, R"(, "hidden_act": "gelu_fast")"},
}};
// clang-format on

// transformers 5 calls the head so while it is not saved.
constexpr std::array<OtherEnding, 1> kHeadName{{{"embed_out.weight", "lm_head.weight"}}};

}  // namespace

extern const Family gpt_neox_family{
    .model_type = "gpt_neox",
    .architecture = "GPTNeoXForCausalLM",
    .read = read_gpt_neox,
    .write = write_gpt_neox,
    .parts = gpt_neox_parts,
    .published =
        [] {
          return published_rotary("gpt_neox", kGptNeoxSizes, "layer_norm_eps", "rotary_emb_base");
        },
    .base_prefix = "gpt_neox.",
    .other_endings = kHeadName,
};

}  // namespace snug

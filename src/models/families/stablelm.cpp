// StableLM: Llama with layer norms and rotary positions on a part of each head. Where attention and
// MLP read the same sum they share its norm, too.
#include <array>

#include "models/families/rotary.h"

namespace snug {
namespace {

void read_stablelm(const JsonFields& f, HfConfig& c) {
  read_rotary_sizes(f, c,
                    {.vocab = 50304,
                     .width = 2560,
                     .inner = 6912,
                     .layers = 32,
                     .heads = 32,
                     .positions = 4096,
                     .eps = 1e-5,
                     .eps_key = "layer_norm_eps",
                     .kv_heads = 32});
  c.padding_token = read_padding(f, c, std::nullopt);
  c.qkv_bias = f.flag("use_qkv_bias", false);
  settle_heads(f, c, "num_attention_heads", /*any_head_dim=*/false);
  must_be(f, "qk_layernorm", false);
  if (f.rate("hidden_dropout", 0) != 0) {
    throw f.refusal("hidden_dropout", "is not 0, which Snug does not support for stablelm");
  }
  c.parallel_residual = f.flag("use_parallel_residual", false);
  read_activation(f, c, "hidden_act", "silu", HfGate::silu);
  c.rope = read_rope(f, {.part = 0.25, .whole_heads = false}, c.max_position_embeddings);
  require_pairs(f, c, "partial_rotary_factor");
}

void write_stablelm(const HfConfig& c, OrderedJson& json) {
  write_sizes(c, json);
  json["num_key_value_heads"] = c.num_key_value_heads;
  json["layer_norm_eps"] = c.norm_eps;
  json["use_parallel_residual"] = c.parallel_residual;
  json["attention_dropout"] = c.attention_dropout;
  json["use_qkv_bias"] = c.qkv_bias;
  write_rope(c, json, "rope_theta", "partial_rotary_factor");
}

ModelParts stablelm_parts(const HfConfig& hf) {
  parts::Block block = llama_block(hf);
  block.norm.kind = parts::Norm::Kind::layer_norm;
  block.parallel = hf.parallel_residual;
  if (block.parallel) block.mlp_norm_tensor = "";
  return llama_parts(hf, block);
}

// clang-format off
constexpr std::array<RotarySize, 2> kStableLmSizes{{
    {"stablelm-3b",    "StableLM 3B 4E1T", 2560, 32, 32, 32, 6912,  50304, 4096, 1e-5, 1e4},
    {"stablelm2-1.6b", "StableLM 2 1.6B",  2048, 24, 32, 32, 5632, 100352, 4096, 1e-5, 1e4, false, R"(, "use_qkv_bias": true)"},
}};
// clang-format on

}  // namespace

extern const Family stablelm_family{
    .model_type = "stablelm",
    .architecture = "StableLmForCausalLM",
    .read = read_stablelm,
    .write = write_stablelm,
    .parts = stablelm_parts,
    .published = [] { return published_rotary("stablelm", kStableLmSizes, "layer_norm_eps"); },
    .base_prefix = "model.",
};

}  // namespace snug

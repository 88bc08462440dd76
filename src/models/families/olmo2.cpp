// OLMo 2: Llama with norms of what the parts add instead of what they read, and of all queries and
// keys of a token.
#include <array>

#include "models/families/rotary.h"

namespace snug {
namespace {

void read_olmo2(const JsonFields& f, HfConfig& c) {
  read_llama_sizes(f, c,
                   {.vocab = 50304,
                    .width = 4096,
                    .inner = 11008,
                    .layers = 32,
                    .heads = 32,
                    .positions = 2048,
                    .eps = 1e-5,
                    .padding = 1});
  must_be(f, "mlp_bias", false);
  c.qkv_bias = c.attention_output_bias = f.flag("attention_bias", false);
  settle_heads(f, c, "num_attention_heads", /*any_head_dim=*/true);
  read_activation(f, c, "hidden_act", "silu", HfGate::silu);
  c.rope = read_rope(f, {}, c.max_position_embeddings);
}

void write_olmo2(const HfConfig& c, OrderedJson& json) {
  write_llama_sizes(c, json);
  json["attention_bias"] = c.qkv_bias;
  write_rope(c, json);
}

ModelParts olmo2_parts(const HfConfig& hf) {
  parts::Block block = llama_block(hf);
  add_qk_norm(block.attention, parts::Attention::QkNorm::token);
  block.norm_place = parts::Block::NormPlace::after_part;
  block.attention_norm_tensor = block.mlp_norm_tensor = "";
  block.attention_part_norm_tensor = "post_attention_layernorm";
  block.mlp_part_norm_tensor = "post_feedforward_layernorm";
  return llama_parts(hf, block);
}

constexpr std::string_view kOlmoPadding = R"(, "pad_token_id": 100277)";
// clang-format off
constexpr std::array<RotarySize, 3> kOlmo2Sizes{{
    {"olmo2-1b",  "OLMo 2 1B",  2048, 16, 16, 16,  8192, 100352, 4096, 1e-6, 5e5, false, kOlmoPadding},
    {"olmo2-7b",  "OLMo 2 7B",  4096, 32, 32, 32, 11008, 100352, 4096, 1e-6, 5e5, false, kOlmoPadding},
    {"olmo2-13b", "OLMo 2 13B", 5120, 40, 40, 40, 13824, 100352, 4096, 1e-6, 5e5, false, kOlmoPadding},
}};
// clang-format on

}  // namespace

extern const Family olmo2_family{
    .model_type = "olmo2",
    .architecture = "Olmo2ForCausalLM",
    .read = read_olmo2,
    .write = write_olmo2,
    .parts = olmo2_parts,
    .published = [] { return published_rotary("olmo2", kOlmo2Sizes); },
    .base_prefix = "model.",
};

}  // namespace snug

// Phi-3: Llama whose checkpoint packs q, k and v, and gate and up; all layers have a window.
#include <array>

#include "models/families/rotary.h"
#include "models/families/windows.h"

namespace snug {
namespace {

void read_phi3(const JsonFields& f, HfConfig& c) {
  read_llama_sizes(f, c,
                   {.vocab = 32064,
                    .width = 3072,
                    .inner = 8192,
                    .layers = 32,
                    .heads = 32,
                    .positions = 4096,
                    .eps = 1e-5,
                    .padding = 32000});
  c.residual_dropout = f.rate("resid_pdrop", 0);
  must_be(f, "mlp_bias", false);
  must_be(f, "attention_bias", false);
  settle_heads(f, c, "num_attention_heads", /*any_head_dim=*/true);
  read_activation(f, c, "hidden_act", "silu", HfGate::silu);
  c.rope = read_rope(f, {}, c.max_position_embeddings);
  read_window(f, c, std::nullopt);
}

void write_phi3(const HfConfig& c, OrderedJson& json) {
  write_llama_sizes(c, json);
  json["resid_pdrop"] = c.residual_dropout;
  write_window(c, json);
  write_rope(c, json);
}

ModelParts phi3_parts(const HfConfig& hf) {
  parts::Block block = llama_block(hf);
  block.attention.qkv_tensors = {"self_attn.qkv_proj"};
  block.mlp.in_tensors = {"mlp.gate_up_proj"};
  return llama_parts(hf, block);
}

// clang-format off
constexpr std::array<RotarySize, 1> kPhi3Sizes{{
    {"phi3-mini", "Phi-3 mini, 4K, a window of 2047", 3072, 32, 32, 32, 8192, 32064, 4096, 1e-5, 1e4, false,
     R"(, "sliding_window": 2047)"},
}};
// clang-format on

}  // namespace

extern const Family phi3_family{
    .model_type = "phi3",
    .architecture = "Phi3ForCausalLM",
    .read = read_phi3,
    .write = write_phi3,
    .parts = phi3_parts,
    .published = [] { return published_rotary("phi3", kPhi3Sizes); },
    .base_prefix = "model.",
};

}  // namespace snug

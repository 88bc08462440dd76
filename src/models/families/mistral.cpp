// Mistral: Llama whose layers all have a window.
#include <array>

#include "models/families/rotary.h"
#include "models/families/windows.h"

namespace snug {
namespace {

void read_mistral(const JsonFields& f, HfConfig& c) {
  read_llama_sizes(f, c,
                   {.vocab = 32000,
                    .width = 4096,
                    .inner = 14336,
                    .layers = 32,
                    .heads = 32,
                    .positions = 131072,
                    .eps = 1e-6,
                    .kv_heads = 8});
  must_be(f, "mlp_bias", false);
  must_be(f, "attention_bias", false);
  settle_heads(f, c, "num_attention_heads", /*any_head_dim=*/true);
  read_activation(f, c, "hidden_act", "silu", HfGate::silu);
  c.rope = read_rope(f, {}, c.max_position_embeddings);
  read_window(f, c, 4096);
}

void write_mistral(const HfConfig& c, OrderedJson& json) {
  write_llama_sizes(c, json);
  write_window(c, json);
  write_rope(c, json);
}

// clang-format off
constexpr std::array<RotarySize, 2> kMistralSizes{{
    {"mistral-7b",      "Mistral 7B v0.3, no window",        4096, 32, 32, 8, 14336, 32768, 32768, 1e-5, 1e6},
    {"mistral-7b-v0.1", "Mistral 7B v0.1, a window of 4096", 4096, 32, 32, 8, 14336, 32000, 32768, 1e-5, 1e4, false,
     R"(, "sliding_window": 4096)"},
}};
// clang-format on

}  // namespace

extern const Family mistral_family{
    .model_type = "mistral",
    .architecture = "MistralForCausalLM",
    .read = read_mistral,
    .write = write_mistral,
    .parts = [](const HfConfig& c) { return llama_parts(c, llama_block(c)); },
    .published = [] { return published_rotary("mistral", kMistralSizes); },
    .base_prefix = "model.",
};

}  // namespace snug

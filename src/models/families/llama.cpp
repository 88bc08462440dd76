// Llama: what the other rotary families are compared with (rotary.h).
#include <array>

#include "models/families/rotary.h"

namespace snug {
namespace {

void read_llama(const JsonFields& f, HfConfig& c) {
  read_llama_sizes(f, c,
                   {.vocab = 32000,
                    .width = 4096,
                    .inner = 11008,
                    .layers = 32,
                    .heads = 32,
                    .positions = 2048,
                    .eps = 1e-6});
  c.qkv_bias = c.attention_output_bias = f.flag("attention_bias", false);
  c.mlp_bias = f.flag("mlp_bias", false);
  settle_heads(f, c, "num_attention_heads", /*any_head_dim=*/false);
  read_activation(f, c, "hidden_act", "silu", HfGate::silu);
  c.rope = read_rope(f, {}, c.max_position_embeddings);
}

void write_llama(const HfConfig& c, OrderedJson& json) {
  write_llama_sizes(c, json);
  json["attention_bias"] = c.qkv_bias;
  json["mlp_bias"] = c.mlp_bias;
  write_rope(c, json);
}

constexpr std::string_view kLlama31 =
    R"(, "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 8192})";

// clang-format off
constexpr std::array<RotarySize, 13> kLlamaSizes{{
    {"snug-tiny",    "byte level, for trying things out",   256,   6,   4,  2,   704,    256,   1024, 1e-5, 1e4},
    {"llama-7b",     "Llama 2 7B",                         4096,  32,  32, 32, 11008,  32000,   4096, 1e-5, 1e4},
    {"llama-8b",     "Llama 3.1 8B",                       4096,  32,  32,  8, 14336, 128256, 131072, 1e-5, 5e5, false, kLlama31},
    {"llama-13b",    "Llama 2 13B",                        5120,  40,  40, 40, 13824,  32000,   4096, 1e-5, 1e4},
    {"llama-30b",    "LLaMA 33B, the first",               6656,  60,  52, 52, 17920,  32000,   2048, 1e-6, 1e4},
    {"llama-65b",    "LLaMA 65B, the first",               8192,  80,  64, 64, 22016,  32000,   2048, 1e-5, 1e4},
    {"llama-70b",    "Llama 2 70B",                        8192,  80,  64,  8, 28672,  32000,   4096, 1e-5, 1e4},
    {"llama3-70b",   "Llama 3.1 70B",                      8192,  80,  64,  8, 28672, 128256, 131072, 1e-5, 5e5, false, kLlama31},
    {"llama-405b",   "Llama 3.1 405B",                    16384, 126, 128,  8, 53248, 128256, 131072, 1e-5, 5e5, false, kLlama31},
    {"smollm2-135m", "SmolLM2 135M",                        576,  30,   9,  3,  1536,  49152,   8192, 1e-5, 1e5, true},
    {"smollm2-360m", "SmolLM2 360M",                        960,  32,  15,  5,  2560,  49152,   8192, 1e-5, 1e5, true},
    {"smollm2-1.7b", "SmolLM2 1.7B",                       2048,  24,  32, 32,  8192,  49152,   8192, 1e-5, 1.3e5, true},
    {"tinyllama",    "TinyLlama 1.1B",                     2048,  22,  32,  4,  5632,  32000,   2048, 1e-5, 1e4},
}};
// clang-format on

}  // namespace

extern const Family llama_family{
    .model_type = "llama",
    .architecture = "LlamaForCausalLM",
    .read = read_llama,
    .write = write_llama,
    .parts = [](const HfConfig& c) { return llama_parts(c, llama_block(c)); },
    .published = [] { return published_rotary("llama", kLlamaSizes); },
    .base_prefix = "model.",
};

}  // namespace snug

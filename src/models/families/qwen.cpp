// Qwen2 and Qwen3: Llama with biases on q, k and v, or with norms of queries and keys; the layers
// from some one on may have a window.
#include <array>

#include "models/families/rotary.h"
#include "models/families/windows.h"

namespace snug {
namespace {

constexpr RotaryDefaults kQwen{.vocab = 151936,
                               .width = 4096,
                               .inner = 22016,
                               .layers = 32,
                               .heads = 32,
                               .positions = 32768,
                               .eps = 1e-6,
                               .kv_heads = 32};

// After the biases.
void read_qwen_rest(const JsonFields& f, HfConfig& c) {
  settle_heads(f, c, "num_attention_heads", /*any_head_dim=*/true);
  read_activation(f, c, "hidden_act", "silu", HfGate::silu);
  c.rope = read_rope(f, {}, c.max_position_embeddings);
  auto window = f.nullable_size("sliding_window", 4096, kMaxPositions);
  if (window && !f.flag("use_sliding_window", false)) window.reset();
  read_layer_windows(f, c, window, [&](int64_t layer) {
    return static_cast<double>(layer) >= f.non_negative("max_window_layers", 28);
  });
}

// max_window_layers names the layers with a window too, and stays as it was.
void write_qwen_rest(const HfConfig& c, OrderedJson& json) {
  if (json.contains("layer_types")) write_layer_types(c, json);
  write_rope(c, json);
}

void read_qwen2(const JsonFields& f, HfConfig& c) {
  read_llama_sizes(f, c, kQwen);
  must_be(f, "mlp_bias", false);
  c.qkv_bias = true;
  read_qwen_rest(f, c);
}

void write_qwen2(const HfConfig& c, OrderedJson& json) {
  write_llama_sizes(c, json);
  write_qwen_rest(c, json);
}

void read_qwen3(const JsonFields& f, HfConfig& c) {
  RotaryDefaults defaults = kQwen;
  defaults.head_dim = 128;
  read_llama_sizes(f, c, defaults);
  must_be(f, "mlp_bias", false);
  c.qkv_bias = c.attention_output_bias = f.flag("attention_bias", false);
  read_qwen_rest(f, c);
}

void write_qwen3(const HfConfig& c, OrderedJson& json) {
  write_llama_sizes(c, json);
  json["attention_bias"] = c.qkv_bias;
  write_qwen_rest(c, json);
}

ModelParts qwen3_parts(const HfConfig& hf) {
  parts::Block block = llama_block(hf);
  add_qk_norm(block.attention, parts::Attention::QkNorm::head);
  return llama_parts(hf, block);
}

constexpr std::string_view kHeads128 = R"(, "head_dim": 128)";
// clang-format off
constexpr std::array<RotarySize, 7> kQwen2Sizes{{
    {"qwen2.5-0.5b", "Qwen2.5 0.5B",  896, 24, 14, 2,  4864, 151936,  32768, 1e-6, 1e6, true},
    {"qwen2.5-1.5b", "Qwen2.5 1.5B", 1536, 28, 12, 2,  8960, 151936, 131072, 1e-6, 1e6, true},
    {"qwen2.5-3b",   "Qwen2.5 3B",   2048, 36, 16, 2, 11008, 151936,  32768, 1e-6, 1e6, true},
    {"qwen2.5-7b",   "Qwen2.5 7B",   3584, 28, 28, 4, 18944, 152064, 131072, 1e-6, 1e6},
    {"qwen2.5-14b",  "Qwen2.5 14B",  5120, 48, 40, 8, 13824, 152064, 131072, 1e-5, 1e6},
    {"qwen2.5-32b",  "Qwen2.5 32B",  5120, 64, 40, 8, 27648, 152064, 131072, 1e-5, 1e6},
    {"qwen2.5-72b",  "Qwen2.5 72B",  8192, 80, 64, 8, 29568, 152064, 131072, 1e-5, 1e6},
}};
constexpr std::array<RotarySize, 6> kQwen3Sizes{{
    {"qwen3-0.6b",   "Qwen3 0.6B",   1024, 28, 16, 8,  3072, 151936,  40960, 1e-6, 1e6, true,  kHeads128},
    {"qwen3-1.7b",   "Qwen3 1.7B",   2048, 28, 16, 8,  6144, 151936,  40960, 1e-6, 1e6, true,  kHeads128},
    {"qwen3-4b",     "Qwen3 4B",     2560, 36, 32, 8,  9728, 151936,  40960, 1e-6, 1e6, true,  kHeads128},
    {"qwen3-8b",     "Qwen3 8B",     4096, 36, 32, 8, 12288, 151936,  40960, 1e-6, 1e6, false, kHeads128},
    {"qwen3-14b",    "Qwen3 14B",    5120, 40, 40, 8, 17408, 151936,  40960, 1e-6, 1e6, false, kHeads128},
    {"qwen3-32b",    "Qwen3 32B",    5120, 64, 64, 8, 25600, 151936,  40960, 1e-6, 1e6, false, kHeads128},
}};
// clang-format on

}  // namespace

extern const Family qwen2_family{
    .model_type = "qwen2",
    .architecture = "Qwen2ForCausalLM",
    .read = read_qwen2,
    .write = write_qwen2,
    .parts = [](const HfConfig& c) { return llama_parts(c, llama_block(c)); },
    .published = [] { return published_rotary("qwen2", kQwen2Sizes); },
    .base_prefix = "model.",
};

extern const Family qwen3_family{
    .model_type = "qwen3",
    .architecture = "Qwen3ForCausalLM",
    .read = read_qwen3,
    .write = write_qwen3,
    .parts = qwen3_parts,
    .published = [] { return published_rotary("qwen3", kQwen3Sizes); },
    .base_prefix = "model.",
};

}  // namespace snug

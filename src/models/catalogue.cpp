#include "models/catalogue.h"

#include <fmt/format.h>

#include <array>

namespace snug {
namespace {

struct GptLike {  // GPT-2, OPT and BERT: the rest is their family's default
  std::string_view name, model_type, notes;
  int64_t C, L, H;
  std::string_view more = "";  // fields that are not
};

enum Trait : uint8_t {
  kPlain,
  kTied,
  kLlama31,  // frequencies stretched 8 times from 8192 positions
};

struct Rotary {
  std::string_view name, model_type, notes;
  int64_t C, L, H, K, F, V, positions;
  double eps, theta;
  Trait trait = kPlain;
  std::string_view more = "";  // fields that others of the table do not have
};

// clang-format off
constexpr std::array<GptLike, 14> kGptLike{{
    {"gpt2",        "gpt2", "GPT-2 small",                               768, 12, 12},
    {"gpt2-medium", "gpt2", "GPT-2 medium",                             1024, 24, 16},
    {"gpt2-large",  "gpt2", "GPT-2 large",                              1280, 36, 20},
    {"gpt2-xl",     "gpt2", "GPT-2 XL",                                 1600, 48, 25},
    {"gpt3-175b",   "gpt2", "GPT-3 175B, all attention dense",         12288, 96, 96, R"(, "n_positions": 2048)"},
    {"opt-125m",    "opt",  "OPT 125M",                                  768, 12, 12},
    {"opt-1.3b",    "opt",  "OPT 1.3B",                                 2048, 24, 32},
    {"opt-2.7b",    "opt",  "OPT 2.7B",                                 2560, 32, 32},
    {"opt-6.7b",    "opt",  "OPT 6.7B",                                 4096, 32, 32},
    {"opt-13b",     "opt",  "OPT 13B",                                  5120, 40, 40},
    {"opt-30b",     "opt",  "OPT 30B",                                  7168, 48, 56},
    {"opt-66b",     "opt",  "OPT 66B",                                  9216, 64, 72},
    {"bert-base",   "bert", "BERT base uncased, masked-language head",   768, 12, 12},
    {"bert-large",  "bert", "BERT large uncased, masked-language head", 1024, 24, 16},
}};

constexpr std::string_view kOlmo = R"(, "pad_token_id": 100277)";
constexpr std::string_view kPhi = R"(, "sliding_window": 2047)";
constexpr std::string_view kHeads128 = R"(, "head_dim": 128)";
// Gemma 3 1B was trained on 32768 positions; the frequencies of the others are stretched 8 times.
constexpr std::string_view kGemma1b =
    R"(, "head_dim": 256, "query_pre_attn_scalar": 256, "sliding_window": 512)";
constexpr std::string_view kGemma =
    R"(, "head_dim": 256, "query_pre_attn_scalar": 256, "sliding_window": 1024,
         "rope_scaling": {"rope_type": "linear", "factor": 8.0})";
constexpr std::string_view kGemma27b =
    R"(, "head_dim": 128, "query_pre_attn_scalar": 168, "sliding_window": 1024,
         "rope_scaling": {"rope_type": "linear", "factor": 8.0})";
constexpr std::string_view kStable2 = R"(, "use_qkv_bias": true)";
constexpr std::string_view kFastGelu = R"(, "hidden_act": "gelu_fast")";

constexpr std::array<Rotary, 45> kRotary{{
    {"snug-tiny",    "llama",   "byte level, for trying things out",   256,   6,   4,  2,   704,    256,   1024, 1e-5, 1e4},
    {"llama-7b",     "llama",   "Llama 2 7B",                         4096,  32,  32, 32, 11008,  32000,   4096, 1e-5, 1e4},
    {"llama-8b",     "llama",   "Llama 3.1 8B",                       4096,  32,  32,  8, 14336, 128256, 131072, 1e-5, 5e5, kLlama31},
    {"llama-13b",    "llama",   "Llama 2 13B",                        5120,  40,  40, 40, 13824,  32000,   4096, 1e-5, 1e4},
    {"llama-30b",    "llama",   "LLaMA 33B, the first",               6656,  60,  52, 52, 17920,  32000,   2048, 1e-6, 1e4},
    {"llama-65b",    "llama",   "LLaMA 65B, the first",               8192,  80,  64, 64, 22016,  32000,   2048, 1e-5, 1e4},
    {"llama-70b",    "llama",   "Llama 2 70B",                        8192,  80,  64,  8, 28672,  32000,   4096, 1e-5, 1e4},
    {"llama3-70b",   "llama",   "Llama 3.1 70B",                      8192,  80,  64,  8, 28672, 128256, 131072, 1e-5, 5e5, kLlama31},
    {"llama-405b",   "llama",   "Llama 3.1 405B",                    16384, 126, 128,  8, 53248, 128256, 131072, 1e-5, 5e5, kLlama31},
    {"smollm2-135m", "llama",   "SmolLM2 135M",                        576,  30,   9,  3,  1536,  49152,   8192, 1e-5, 1e5,    kTied},
    {"smollm2-360m", "llama",   "SmolLM2 360M",                        960,  32,  15,  5,  2560,  49152,   8192, 1e-5, 1e5,    kTied},
    {"smollm2-1.7b", "llama",   "SmolLM2 1.7B",                       2048,  24,  32, 32,  8192,  49152,   8192, 1e-5, 1.3e5,  kTied},
    {"tinyllama",    "llama",   "TinyLlama 1.1B",                     2048,  22,  32,  4,  5632,  32000,   2048, 1e-5, 1e4},
    {"qwen2.5-0.5b", "qwen2",   "Qwen2.5 0.5B",                        896,  24,  14,  2,  4864, 151936,  32768, 1e-6, 1e6,    kTied},
    {"qwen2.5-1.5b", "qwen2",   "Qwen2.5 1.5B",                       1536,  28,  12,  2,  8960, 151936, 131072, 1e-6, 1e6,    kTied},
    {"qwen2.5-3b",   "qwen2",   "Qwen2.5 3B",                         2048,  36,  16,  2, 11008, 151936,  32768, 1e-6, 1e6,    kTied},
    {"qwen2.5-7b",   "qwen2",   "Qwen2.5 7B",                         3584,  28,  28,  4, 18944, 152064, 131072, 1e-6, 1e6},
    {"qwen2.5-14b",  "qwen2",   "Qwen2.5 14B",                        5120,  48,  40,  8, 13824, 152064, 131072, 1e-5, 1e6},
    {"qwen2.5-32b",  "qwen2",   "Qwen2.5 32B",                        5120,  64,  40,  8, 27648, 152064, 131072, 1e-5, 1e6},
    {"qwen2.5-72b",  "qwen2",   "Qwen2.5 72B",                        8192,  80,  64,  8, 29568, 152064, 131072, 1e-5, 1e6},
    {"mistral-7b",   "mistral", "Mistral 7B v0.3, no window",         4096,  32,  32,  8, 14336,  32768,  32768, 1e-5, 1e6},
    {"mistral-7b-v0.1", "mistral", "Mistral 7B v0.1, a window of 4096", 4096, 32,  32,  8, 14336,  32000,  32768, 1e-5, 1e4, kPlain, R"(, "sliding_window": 4096)"},
    {"qwen3-0.6b",   "qwen3",   "Qwen3 0.6B",                         1024,  28,  16,  8,  3072, 151936,  40960, 1e-6, 1e6,    kTied, kHeads128},
    {"qwen3-1.7b",   "qwen3",   "Qwen3 1.7B",                         2048,  28,  16,  8,  6144, 151936,  40960, 1e-6, 1e6,    kTied, kHeads128},
    {"qwen3-4b",     "qwen3",   "Qwen3 4B",                           2560,  36,  32,  8,  9728, 151936,  40960, 1e-6, 1e6,    kTied, kHeads128},
    {"qwen3-8b",     "qwen3",   "Qwen3 8B",                           4096,  36,  32,  8, 12288, 151936,  40960, 1e-6, 1e6,   kPlain, kHeads128},
    {"qwen3-14b",    "qwen3",   "Qwen3 14B",                          5120,  40,  40,  8, 17408, 151936,  40960, 1e-6, 1e6,   kPlain, kHeads128},
    {"qwen3-32b",    "qwen3",   "Qwen3 32B",                          5120,  64,  64,  8, 25600, 151936,  40960, 1e-6, 1e6,   kPlain, kHeads128},
    {"olmo2-1b",     "olmo2",   "OLMo 2 1B",                          2048,  16,  16, 16,  8192, 100352,   4096, 1e-6, 5e5,   kPlain, kOlmo},
    {"olmo2-7b",     "olmo2",   "OLMo 2 7B",                          4096,  32,  32, 32, 11008, 100352,   4096, 1e-6, 5e5,   kPlain, kOlmo},
    {"olmo2-13b",    "olmo2",   "OLMo 2 13B",                         5120,  40,  40, 40, 13824, 100352,   4096, 1e-6, 5e5,   kPlain, kOlmo},
    {"phi3-mini",    "phi3",    "Phi-3 mini, 4K, a window of 2047",   3072,  32,  32, 32,  8192,  32064,   4096, 1e-5, 1e4,   kPlain, kPhi},
    {"gemma3-1b",    "gemma3_text", "Gemma 3 1B",                     1152,  26,   4,  1,  6912, 262144,  32768, 1e-6, 1e6,    kTied, kGemma1b},
    {"gemma3-4b",    "gemma3_text", "Gemma 3 4B, its text",           2560,  34,   8,  4, 10240, 262208, 131072, 1e-6, 1e6,    kTied, kGemma},
    {"gemma3-12b",   "gemma3_text", "Gemma 3 12B, its text",          3840,  48,  16,  8, 15360, 262208, 131072, 1e-6, 1e6,    kTied, kGemma},
    {"gemma3-27b",   "gemma3_text", "Gemma 3 27B, its text",          5376,  62,  32, 16, 21504, 262208, 131072, 1e-6, 1e6,    kTied, kGemma27b},
    {"stablelm-3b",  "stablelm", "StableLM 3B 4E1T",                  2560,  32,  32, 32,  6912,  50304,   4096, 1e-5, 1e4},
    {"stablelm2-1.6b", "stablelm", "StableLM 2 1.6B",                 2048,  24,  32, 32,  5632, 100352,   4096, 1e-5, 1e4,   kPlain, kStable2},
    {"pythia-160m",  "gpt_neox", "Pythia 160M",                        768,  12,  12, 12,  3072,  50304,   2048, 1e-5, 1e4},
    {"pythia-410m",  "gpt_neox", "Pythia 410M",                       1024,  24,  16, 16,  4096,  50304,   2048, 1e-5, 1e4},
    {"pythia-1.4b",  "gpt_neox", "Pythia 1.4B",                       2048,  24,  16, 16,  8192,  50304,   2048, 1e-5, 1e4},
    {"pythia-2.8b",  "gpt_neox", "Pythia 2.8B",                       2560,  32,  32, 32, 10240,  50304,   2048, 1e-5, 1e4},
    {"pythia-6.9b",  "gpt_neox", "Pythia 6.9B",                       4096,  32,  32, 32, 16384,  50432,   2048, 1e-5, 1e4},
    {"pythia-12b",   "gpt_neox", "Pythia 12B",                        5120,  36,  40, 40, 20480,  50688,   2048, 1e-5, 1e4},
    {"gpt-neox-20b", "gpt_neox", "GPT-NeoX 20B",                      6144,  44,  64, 64, 24576,  50432,   2048, 1e-5, 1e4,   kPlain, kFastGelu},
}};
// clang-format on

std::string config_of(const GptLike& m) {
  if (m.model_type == "gpt2") {
    return fmt::format(R"({{"model_type": "gpt2", "n_embd": {}, "n_layer": {}, "n_head": {}{}}})",
                       m.C, m.L, m.H, m.more);
  }
  return fmt::format(
      R"({{"model_type": "{}", "hidden_size": {},
           "num_hidden_layers": {}, "num_attention_heads": {},
           "{}": {}}})",
      m.model_type, m.C, m.L, m.H, m.model_type == "opt" ? "ffn_dim" : "intermediate_size",
      4 * m.C);
}

std::string config_of(const Rotary& m) {
  const bool neox = m.model_type == "gpt_neox";
  constexpr const char* stretched =
      R"(, "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 8192})";
  return fmt::format(
      R"({{"model_type": "{}", "hidden_size": {},
           "num_hidden_layers": {}, "num_attention_heads": {},
           "num_key_value_heads": {}, "intermediate_size": {}, "vocab_size": {},
           "max_position_embeddings": {}, "{}": {}, "{}": {},
           "tie_word_embeddings": {}{}{}{}}})",
      m.model_type, m.C, m.L, m.H, m.K, m.F, m.V, m.positions,
      neox || m.model_type == "stablelm" ? "layer_norm_eps" : "rms_norm_eps", m.eps,
      neox ? "rotary_emb_base" : "rope_theta", m.theta, m.trait == kTied,
      m.trait == kLlama31 ? stretched : "", m.more,
      m.more.find("sliding_window") == m.more.npos ? R"(, "sliding_window": null)" : "");
}

template <typename Rows>
std::optional<HfConfig> find_in(const Rows& rows, std::string_view name) {
  for (const auto& row : rows) {
    if (row.name == name) return parse_hf_config(config_of(row), name);
  }
  return std::nullopt;
}

}  // namespace

const std::vector<CatalogueEntry>& catalogue() {
  static const std::vector<CatalogueEntry> all = [] {
    std::vector<CatalogueEntry> entries;
    for (const GptLike& m : kGptLike)
      entries.push_back({std::string(m.name), std::string(m.notes)});
    for (const Rotary& m : kRotary) entries.push_back({std::string(m.name), std::string(m.notes)});
    return entries;
  }();
  return all;
}

std::vector<std::string> catalogue_names() {
  std::vector<std::string> names;
  for (const CatalogueEntry& entry : catalogue()) names.push_back(entry.name);
  return names;
}

std::optional<HfConfig> find_in_catalogue(std::string_view name) {
  auto found = find_in(kGptLike, name);
  return found ? found : find_in(kRotary, name);
}

}  // namespace snug

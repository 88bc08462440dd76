#include "verbs/calibrate_settings.h"

#include <array>

#include "base/units.h"
#include "recipe/with_flags.h"

namespace snug {
namespace {

constexpr std::string_view kMixed = "--precision bf16";
constexpr std::string_view kLean = "--precision bf16 --master none";
constexpr std::string_view kLeanest = "--precision bf16 --master none --state-dtype bf16";
constexpr std::string_view kTwice = "--precision bf16 --master none --accum 2";

// clang-format off
constexpr std::array kGpu{
    CalibrationSetting{"llama",   2, 1536,  32000,    8, 1024, kLean},
    CalibrationSetting{"qwen2",   2,  896, 151936,    8, 1024, kMixed},
    CalibrationSetting{"gpt2",    2, 1024,  50257,    8, 1024, kMixed},
    CalibrationSetting{"llama",   2, 4096,  32000,    4, 2048, kLeanest},
    CalibrationSetting{"bert",    2, 1024,  30522,   32,  512, kMixed},
    CalibrationSetting{"gpt2",    2,  768,  50257,    8, 1024, "--tf32"},
    CalibrationSetting{"qwen2",   2, 1536, 151936,   16, 1024, kTwice},
    CalibrationSetting{"qwen2",   2, 1536, 151936,    8, 1024, kTwice},
    CalibrationSetting{"mistral", 2, 1024,  32000,   32, 1024, kLeanest},
    CalibrationSetting{"llama",   2, 2048,  32000,    4,  512, ""},
    CalibrationSetting{"qwen2",   2, 3584, 152064,    8, 1024, kTwice},
    CalibrationSetting{"llama",   2,  768,  32000,    2,  512, kMixed},
    CalibrationSetting{"gpt2",    2, 1280,  50257,    4, 1024, "--precision fp16 --loss-scale 128"},
    CalibrationSetting{"llama",   2, 1536,  32000,    4, 1024, "--precision bf16 --attention standard --loss whole"},
    CalibrationSetting{"llama",   2, 1536,  32000,    4, 1024, "--precision bf16 --attention chunked --compress int8 --optimizer adamw8bit"},
    CalibrationSetting{"qwen2",   2,  896,  32000,    4, 4096, kLeanest},
    CalibrationSetting{"gpt2",    2, 1280,  50257,    8, 1024, "--precision bf16 --attention standard"},
    CalibrationSetting{"qwen2",   2,  896,  32000,    8, 1024, "--precision bf16 --attention standard --loss whole"},
    CalibrationSetting{"mistral", 2, 2048,  32000,   16, 1024, "--tf32 --accum 2"},
    CalibrationSetting{"gpt2",    2, 1600,  50257,    8, 1024, "--precision bf16 --dropout 0 --optimizer lion"},
    CalibrationSetting{"mistral", 2, 5120,  32000,    2, 2048, "--precision bf16 --optimizer adam-mini --accum 2"},
    CalibrationSetting{"llama",   2, 1024,  32000,   16, 2048, "--precision bf16 --optimizer sgd"},
    CalibrationSetting{"bert",    2,  768,  30522,   32,  128, "--tf32 --attention standard --optimizer adamw8bit"},
    CalibrationSetting{"gpt2",    2,  768,  50257,   32, 1024, kLean},
    CalibrationSetting{"mlp",     4, 4096,      0, 4096,    1, kLean},
    CalibrationSetting{"gpt2",    2, 1024,  50257,    4, 1024, "--precision bf16 --attention chunked --loss whole --compress int8"},
    CalibrationSetting{"mlp",     4, 4096,      0, 1024,    1, ""},
    CalibrationSetting{"llama",   2, 1536,  32000,    1, 4096, "--precision fp16 --loss-scale 128 --master none --optimizer lion"},
    CalibrationSetting{"llama",   2, 2048,  32000,   16, 1024, ""},
};

constexpr std::array kCpu{
    CalibrationSetting{"mistral", 2,  256,    256,   16,  128, ""},
    CalibrationSetting{"gpt2",    1,  768,  50257,    1,  256, ""},
    CalibrationSetting{"llama",   2,  512,   8192,    2,  256, ""},
    CalibrationSetting{"mistral", 2,  256,    256,    4,  128, kLean},
    CalibrationSetting{"llama",   1, 1024,   4096,    1,  512, ""},
    CalibrationSetting{"mistral", 2,  256,    256,    4,  512, ""},
    CalibrationSetting{"bert",    2,  512,   8192,    4,  128, ""},
    CalibrationSetting{"mistral", 2,  384,    256,    8,  256, kMixed},
    CalibrationSetting{"llama",   2,  256,    256,    2,  128, "--accum 2"},
    CalibrationSetting{"gpt2",    2,  256,   4096,    4,  256, "--attention standard --loss whole"},
    CalibrationSetting{"mistral", 2,  256,   4096,    8,  128, "--attention chunked --compress int8 --optimizer adamw8bit"},
    CalibrationSetting{"qwen2",   1,  896,  32000,    1,  128, kMixed},
    CalibrationSetting{"llama",   2,  512,   4096,    2,  256, "--attention standard --optimizer adam-mini"},
    CalibrationSetting{"llama",   2,  256,    256,    8,  128, "--precision fp16 --loss-scale 128"},
    CalibrationSetting{"gpt2",    2,  512,   4096,    2,  256, "--precision bf16 --optimizer lion --compress int8"},
    CalibrationSetting{"mlp",     3, 1024,      0,  256,    1, ""},
    CalibrationSetting{"bert",    2,  256,   4096,    8,  128, "--precision bf16 --attention standard --loss whole --optimizer sgd"},
    CalibrationSetting{"llama",   2,  512,   4096,    2,  512, "--precision bf16 --attention chunked --optimizer adamw8bit --accum 2"},
    CalibrationSetting{"llama",   2,  384,    256,   16,  256, "--state-dtype bf16"},
    CalibrationSetting{"mistral", 2,  256,   4096,    1, 1024, "--optimizer lion"},
    CalibrationSetting{"mlp",     3,  512,      0,   64,    1, kMixed},
};
// clang-format on

// Heads that share keys and values make other shapes of attention.
int64_t key_heads(const CalibrationSetting& s, int64_t heads) {
  if (s.family == "llama") return heads;
  if (s.family == "qwen2") return s.C >= 2048 ? 4 : 2;
  return heads >= 16 ? heads / 4 : heads / 2;
}

std::string config_of(const CalibrationSetting& s) {
  if (s.family == "gpt2") {
    return fmt::format(
        R"({{"model_type": "gpt2", "n_embd": {}, "n_layer": {}, "n_head": {}, "vocab_size": {}}})",
        s.C, s.L, s.C / 64, s.V);
  }
  const bool rotary = s.family != "bert";
  const bool qwen = s.family == "qwen2";
  const int64_t heads = s.C / (rotary && s.C >= 1536 ? 128 : 64);
  const int64_t inner = qwen     ? round_up(s.C * 27 / 5, 128)
                        : rotary ? round_up(s.C * 43 / 16, 64)
                                 : 4 * s.C;
  const std::string more =
      rotary ? fmt::format(R"(, "num_key_value_heads": {}, "tie_word_embeddings": {},
                               "max_position_embeddings": 8192, "sliding_window": null)",
                           key_heads(s, heads), qwen)
             : "";
  return fmt::format(
      R"({{"model_type": "{}", "hidden_size": {}, "num_hidden_layers": {},
           "num_attention_heads": {}, "intermediate_size": {}, "vocab_size": {}{}}})",
      s.family, s.C, s.L, heads, inner, s.V, more);
}

Model model_of(const CalibrationSetting& s) {
  if (s.family == "mlp") return Model::load(fmt::format("mlp:{}x{}", s.C, s.L));
  return Model::from_config(parse_hf_config(config_of(s), s.family), std::string(s.family));
}

}  // namespace

std::span<const CalibrationSetting> calibration_settings(Backend backend) {
  if (backend == Backend::cuda) return kGpu;
  return kCpu;
}

std::string text(const CalibrationSetting& s) {
  return fmt::format("{} {} x {}, {} x {}{}{}", s.family, s.L, s.C, s.batch, s.seq,
                     s.flags.empty() ? "" : " ", s.flags);
}

Resolved resolve(const CalibrationSetting& s, std::string_view device) {
  Options o;
  o.model = s.family;
  o.device = device;
  o.batch = s.batch;
  o.seq = s.seq;
  o.recompute = "none";
  return resolve(with_flags(o, s.flags), model_of(s));
}

}  // namespace snug

#include "measure/calibrate_settings.h"

#include "base/units.h"
#include "techniques/techniques.h"

namespace snug {
namespace {

// Attention with dropout draws less power than matmuls, and what a GPU does not draw it turns into
// a higher clock for everything around. So where it takes a third of a step, as in GPT-2 and BERT,
// the vocabulary is as small a part of the model's as two layers are: the loss then takes its part
// of the step, too.
// clang-format off
const std::vector<CalibrationSetting>& for_gpu() {
  static const std::vector<CalibrationSetting> settings{
    {"llama",   2, 1536,  32000,    8, 1024, {"bf16 without master"}},
    {"qwen2",   2,  896, 151936,    8, 1024, {"bf16"}},
    {"gpt2",    2, 1024,   8377,    8, 1024, {"bf16"}},
    {"llama",   2, 4096,  32000,    4, 2048, {"bf16 without master", "bf16 state"}},
    {"bert",    2, 1024,   5087,   32,  512, {"bf16"}},
    {"gpt2",    2,  768,   8377,    8, 1024, {"tf32"}},
    {"qwen2",   2, 1536, 151936,   16, 1024, {"bf16 without master"}, {{&Options::accum, 2}}},
    {"qwen2",   2, 1536, 151936,    8, 1024, {"bf16 without master"}, {{&Options::accum, 2}}},
    {"mistral", 2, 1024,  32000,   32, 1024, {"bf16 without master", "bf16 state"}},
    {"llama",   2, 2048,  32000,    4,  512, {}},
    {"qwen2",   2, 3584, 152064,    8, 1024, {"bf16 without master"}, {{&Options::accum, 2}}},
    {"llama",   2,  768,  32000,    2,  512, {"bf16"}},
    {"gpt2",    2, 1280,  50257,    4, 1024, {"fp16"}, {{&Options::loss_scale, LossScale{.start = 128}}}},
    {"llama",   2, 1536,  32000,    4, 1024, {"bf16", "standard attention", "whole loss"}},
    {"llama",   2, 1536,  32000,    4, 1024, {"bf16", "chunked attention", "int8 activations", "adamw8bit"}},
    {"qwen2",   2,  896,  32000,    4, 4096, {"bf16 without master", "bf16 state"}},
    {"gpt2",    2, 1280,  50257,    8, 1024, {"bf16", "standard attention"}},
    {"qwen2",   2,  896,  32000,    8, 1024, {"bf16", "standard attention", "whole loss"}},
    {"mistral", 2, 2048,  32000,   16, 1024, {"tf32"}, {{&Options::accum, 2}}},
    {"gpt2",    2, 1600,  50257,    8, 1024, {"bf16", "lion"}, {{&Options::dropout, 0.0}}},
    {"mistral", 2, 5120,  32000,    2, 2048, {"bf16", "adam-mini"}, {{&Options::accum, 2}}},
    {"llama",   2, 1024,  32000,   16, 2048, {"bf16"}, {{&Options::optimizer, OptimizerKind::sgd}}},
    {"bert",    2,  768,  30522,   32,  128, {"tf32", "standard attention", "adamw8bit"}},
    {"gpt2",    2,  768,   8377,   32, 1024, {"bf16 without master"}},
    {"mlp",     4, 4096,      0, 4096,    1, {"bf16 without master"}},
    {"gpt2",    2, 1024,  50257,    4, 1024, {"bf16", "chunked attention", "whole loss", "int8 activations"}},
    {"mlp",     4, 4096,      0, 1024,    1, {}},
    {"llama",   2, 1536,  32000,    1, 4096, {"fp16", "without master", "lion"}, {{&Options::loss_scale, LossScale{.start = 128}}}},
    {"llama",   2, 2048,  32000,   16, 1024, {}},
    {"bert",    2,  768,  30522,  128,  128, {"bf16"}},
    {"gpt2",    2,  768,   8377,  256,  128, {"bf16 without master", "adam-mini"}},
    {"gpt2",    2,  768,   8377,   16, 1024, {"bf16 without master"}, {{&Options::optimizer, OptimizerKind::sgd}}},
  };
  return settings;
}

const std::vector<CalibrationSetting>& for_cpu() {
  static const std::vector<CalibrationSetting> settings{
    {"mistral", 2,  256,    256,   16,  128, {}},
    {"gpt2",    1,  768,  50257,    1,  256, {}},
    {"llama",   2,  512,   8192,    2,  256, {}},
    {"mistral", 2,  256,    256,    4,  128, {"bf16 without master"}},
    {"llama",   1, 1024,   4096,    1,  512, {}},
    {"mistral", 2,  256,    256,    4,  512, {}},
    {"bert",    2,  512,   8192,    4,  128, {}},
    {"mistral", 2,  384,    256,    8,  256, {"bf16"}},
    {"llama",   2,  256,    256,    2,  128, {}, {{&Options::accum, 2}}},
    {"gpt2",    2,  256,   4096,    4,  256, {"standard attention", "whole loss"}},
    {"mistral", 2,  256,   4096,    8,  128, {"chunked attention", "int8 activations", "adamw8bit"}},
    {"qwen2",   1,  896,  32000,    1,  128, {"bf16"}},
    {"llama",   2,  512,   4096,    2,  256, {"standard attention", "adam-mini"}},
    {"llama",   2,  256,    256,    8,  128, {"fp16"}, {{&Options::loss_scale, LossScale{.start = 128}}}},
    {"gpt2",    2,  512,   4096,    2,  256, {"bf16", "int8 activations", "lion"}},
    {"mlp",     3, 1024,      0,  256,    1, {}},
    {"bert",    2,  256,   4096,    8,  128, {"bf16", "standard attention", "whole loss"}, {{&Options::optimizer, OptimizerKind::sgd}}},
    {"llama",   2,  512,   4096,    2,  512, {"bf16", "chunked attention", "adamw8bit"}, {{&Options::accum, 2}}},
    {"llama",   2,  384,    256,   16,  256, {"bf16 state"}},
    {"mistral", 2,  256,   4096,    1, 1024, {"lion"}},
    {"mlp",     3,  512,      0,   64,    1, {"bf16"}},
  };
  return settings;
}
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
  if (s.V == 0) return Model::load(fmt::format("mlp:{}x{}", s.C, s.L));
  return Model::from_config(parse_hf_config(config_of(s), s.family), std::string(s.family));
}

Change change_of(const CalibrationSetting& s) {
  Change change;
  for (const std::string_view name : s.techniques) change += technique(name).change;
  return change + s.more;
}

}  // namespace

std::span<const CalibrationSetting> calibration_settings(Backend backend) {
  return backend == Backend::cuda ? for_gpu() : for_cpu();
}

std::string text(const CalibrationSetting& s) {
  const std::string flags = flags_of(change_of(s));
  return fmt::format("{} {} x {}, {} x {}{}{}", s.family, s.L, s.C, s.batch, s.seq,
                     flags.empty() ? "" : " ", flags);
}

Resolved resolve(const CalibrationSetting& s, DeviceChoice device) {
  Options o;
  o.model = s.family;
  o.device = device;
  o.batch = s.batch;
  o.seq = s.seq;
  o.recompute = RecomputePolicy{};
  o.precision = ComputeType::fp32;  // unless a technique says otherwise
  return resolve(changed(o, change_of(s)), model_of(s));
}

}  // namespace snug

#include "support/configurations.h"

#include <ostream>

#include "support/small_run.h"

namespace snug {

std::vector<Configuration> configurations() {
  const std::string dir = tests_dir() + "/parity/";
  constexpr auto standard = ops::AttentionKind::standard;
  constexpr auto flash = ops::AttentionKind::flash;
  return {
      {"gpt2_standard_whole",
       dir + "gpt2",
       {.batch = 3, .seq = 16, .attention = standard, .chunked_loss = false}},
      {"gpt2_flash_dropout",
       dir + "gpt2",
       {.batch = 2, .seq = 29, .attention = flash, .loss_chunk = 16, .dropout = 0.1}},
      {"gpt2_standard_dropout",
       dir + "gpt2",
       {.batch = 2, .seq = 29, .attention = standard, .loss_chunk = 16, .dropout = 0.1}},
      {"llama_standard", dir + "llama", {.batch = 1, .seq = 31, .attention = standard}},
      {"llama_flash", dir + "llama", {.batch = 4, .seq = 17, .attention = flash}},
      {"llama_accumulating",
       dir + "llama",
       {.batch = 2, .seq = 24, .attention = flash},
       {.accum = 3}},
      {"qwen2_flash_whole",
       dir + "qwen2",
       {.batch = 3, .seq = 20, .attention = flash, .chunked_loss = false}},
      {"qwen2_standard",
       dir + "qwen2",
       {.batch = 5, .seq = 9, .attention = standard, .loss_chunk = 7}},
      {"mistral_flash", dir + "mistral", {.batch = 2, .seq = 33, .attention = flash}, {.clip = 0}},
      {"mistral_window_chunked",
       dir + "mistral_window",
       {.batch = 2, .seq = 25, .attention = ops::AttentionKind::chunked, .attention_chunk = 6}},
      {"qwen3_flash", dir + "qwen3", {.batch = 2, .seq = 21, .attention = flash}},
      {"qwen3_standard_accumulating",
       dir + "qwen3",
       {.batch = 2, .seq = 13, .attention = standard},
       {.accum = 2}},
      {"olmo2_flash", dir + "olmo2", {.batch = 2, .seq = 23, .attention = flash}},
      {"phi3_flash_dropout",
       dir + "phi3",
       {.batch = 2, .seq = 23, .attention = flash, .dropout = 0.1}},
      {"gemma3_flash", dir + "gemma3", {.batch = 2, .seq = 23, .attention = flash}},
      {"gemma3_standard_whole",
       dir + "gemma3",
       {.batch = 1, .seq = 19, .attention = standard, .chunked_loss = false}},
      {"stablelm_flash", dir + "stablelm", {.batch = 2, .seq = 21, .attention = flash}},
      {"gpt_neox_flash_dropout",
       dir + "gpt_neox",
       {.batch = 2, .seq = 23, .attention = flash, .dropout = 0.1}},
      {"gpt_neox_standard_accumulating",
       dir + "gpt_neox",
       {.batch = 2, .seq = 13, .attention = standard},
       {.accum = 2}},
      {"opt_flash_dropout",
       dir + "opt",
       {.batch = 2, .seq = 21, .attention = flash, .dropout = 0.1}},
      {"opt_packed_standard",
       dir + "opt",
       {.batch = 2, .seq = 24, .attention = standard, .packed = true}},
      {"llama_packed_accumulating",
       dir + "llama",
       {.batch = 2, .seq = 24, .attention = flash, .packed = true},
       {.accum = 2}},
      {"gpt2_packed_standard_dropout",
       dir + "gpt2",
       {.batch = 2, .seq = 29, .attention = standard, .packed = true, .dropout = 0.1}},
      {"mistral_window_packed_chunked",
       dir + "mistral_window",
       {.batch = 2,
        .seq = 25,
        .attention = ops::AttentionKind::chunked,
        .attention_chunk = 6,
        .packed = true}},
      {"bert_standard", dir + "bert", {.batch = 2, .seq = 19, .attention = standard}},
      {"mlp", "mlp:48x3", {.batch = 6, .seq = 1}},
      {"byte_llama", "snug-tiny", {.batch = 2, .seq = 64}},
  };
}

void PrintTo(const Configuration& configuration, std::ostream* out) { *out << configuration.name; }

}  // namespace snug

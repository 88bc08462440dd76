// Hugging Face config.json: read into one validated struct, written back for `transformers`.
//
//   HfConfig c = load_hf_config("models/Qwen2.5-0.5B");  // a directory or the file itself
//   check_sequence(c, 2048);                             // throws where that cannot be right
//   write_file_atomically(dir / "config.json", to_json(c));
//
// Defaults are those of the family's configuration class in transformers, because files omit them.
// A field that would change the computation and is not supported is refused by name; one that would
// not (bos_token_id, use_cache) is kept. What each family reads and writes is in its own file
// (family.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/type.h"

namespace snug {

struct HfRope {
  enum class Kind : uint8_t { standard, linear, llama3 } kind = Kind::standard;
  double theta = 10000;
  double part = 1;  // of each head that turns: its first elements
  double factor = 1, low_freq_factor = 1, high_freq_factor = 4;
  int64_t original_positions = 0;  // llama3: what the model was first trained on
  friend bool operator==(const HfRope&, const HfRope&) = default;
};

enum class HfActivation : uint8_t { gelu, gelu_tanh, silu, relu };

struct HfConfig {
  std::string model_type;  // one of those that parse_hf_config lists when it refuses another
  std::string dtype;       // as the file says it; "float32" where it says nothing

  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;  // divides num_attention_heads
  int64_t head_dim = 0;
  int64_t max_position_embeddings = 0;
  int64_t type_vocab_size = 0;  // bert
  // pad_token_id, where the family gives it to its embedding as padding_idx (not gpt2
  // and gpt_neox): in [0, vocab_size).
  std::optional<int64_t> padding_token;

  HfActivation activation = HfActivation::silu;
  std::string hidden_act;  // the file's spelling of it
  double norm_eps = 0;
  double initializer_range = 0;
  bool tie_word_embeddings = false;
  bool qkv_bias = false;
  bool attention_output_bias = false;
  bool mlp_bias = false;
  bool parallel_residual = false;  // stablelm, gpt_neox: attention and MLP read the same sum
  double embedding_dropout = 0;
  double attention_dropout = 0;
  double residual_dropout = 0;

  bool rotary = false;       // positions turn queries and keys; else they are learned
  HfRope rope;               // where rotary
  double local_theta = 0;    // gemma3_text: the base of layers with a window
  int64_t query_scalar = 0;  // gemma3_text: scores are divided by its root; otherwise by head_dim's
  std::optional<int64_t> sliding_window;  // some layer attends to this many tokens only
  std::vector<bool> window_layers;        // which, over and over; empty: all, if there is a window

  std::string
      original;  // the JSON text it was read from: its other fields are written back as they were

  // Elements of a head that turn.
  int64_t rotary_dim() const {
    return static_cast<int64_t>(static_cast<double>(head_dim) * rope.part);
  }
  bool has_window(int64_t layer) const {
    if (!sliding_window || window_layers.empty()) return sliding_window.has_value();
    return window_layers[static_cast<size_t>(layer) % window_layers.size()];
  }
};

// As did_you_mean, for names of models and families: another version or size is another model
// (qwen3 is no typing error of qwen2), and so is another family (mixtral).
std::string did_you_mean_model(std::string_view word, std::span<const std::string> candidates);

// `where` names the source in errors. Throws bad_input.
HfConfig parse_hf_config(std::string_view text, std::string_view where);
HfConfig load_hf_config(const std::filesystem::path& file_or_directory);

// Throws a usage error when the model cannot attend over T tokens as asked: learned positions end.
// Returns a remark where T is allowed but beyond what the model was made for, else "".
std::string check_sequence(const HfConfig& config, int64_t T);

// config.json of the model with weights of that type.
std::string to_json(const HfConfig& config, Dtype weights = Dtype::f32);

}  // namespace snug

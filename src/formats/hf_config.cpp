#include "formats/hf_config.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/text.h"
#include "base/units.h"
#include "formats/hf_experts.h"
#include "formats/hf_family.h"

namespace snug {
namespace {

constexpr std::uintmax_t kMaxFileBytes = 16 << 20;

void refuse_what_no_family_supports(const HfFields& f) {
  if (f.has("quantization_config")) {
    throw f.refusal("quantization_config", "is set; quantised weights cannot be trained")
        .hint("use the model's unquantised directory");
  }
  if (const HfJson* pruned = f.find("pruned_heads"); pruned != nullptr && !pruned->empty()) {
    throw f.refusal("pruned_heads", "is not empty, which Snug does not support");
  }
}

void read_gpt2(const HfFields& f, HfConfig& c) {
  for (const char* key :
       {"scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention"}) {
    must_be(f, key, false);
  }
  must_be(f, "scale_attn_weights", true);
  const std::string_view heads = f.either("n_head", "num_attention_heads");
  c.vocab_size = f.size("vocab_size", 50257, kMaxVocab);
  c.hidden_size = f.size(f.either("n_embd", "hidden_size"), 768, kMaxWidth);
  c.num_hidden_layers = f.size(f.either("n_layer", "num_hidden_layers"), 12, kMaxLayers);
  c.num_attention_heads = f.size(heads, 12, kMaxHeads);
  c.num_key_value_heads = c.num_attention_heads;
  c.max_position_embeddings =
      f.size(f.either("n_positions", "max_position_embeddings"), 1024, kMaxPositions);
  c.intermediate_size =
      f.nullable_size("n_inner", std::nullopt, kMaxInner).value_or(4 * c.hidden_size);
  c.norm_eps = f.positive("layer_norm_epsilon", 1e-5);
  c.tie_word_embeddings = f.flag("tie_word_embeddings", true);
  c.qkv_bias = c.attention_output_bias = c.mlp_bias = true;
  c.embedding_dropout = f.rate("embd_pdrop", 0.1);
  c.attention_dropout = f.rate("attn_pdrop", 0.1);
  c.residual_dropout = f.rate("resid_pdrop", 0.1);
  read_activation(f, c, "activation_function", "gelu_new", HfGate::none);
  settle_heads(f, c, heads, /*any_head_dim=*/false);
}

void read_opt(const HfFields& f, HfConfig& c) {
  must_be(f, "do_layer_norm_before", true);
  must_be(f, "layer_norm_elementwise_affine", true);
  must_be(f, "_remove_final_layer_norm", false);
  if (f.rate("layerdrop", 0) != 0) {
    throw f.refusal("layerdrop", "is not 0, which Snug does not support");
  }
  c.vocab_size = f.size("vocab_size", 50272, kMaxVocab);
  c.padding_token = read_padding(f, c, 1);
  c.hidden_size = f.size("hidden_size", 768, kMaxWidth);
  const auto projected = f.nullable_size("word_embed_proj_dim", std::nullopt, kMaxWidth);
  if (projected && *projected != c.hidden_size) {
    throw f.refusal("word_embed_proj_dim", "is {} and hidden_size {}: Snug takes only equal ones",
                    *projected, c.hidden_size);
  }
  c.intermediate_size = f.size("ffn_dim", 3072, kMaxInner);
  c.num_hidden_layers = f.size("num_hidden_layers", 12, kMaxLayers);
  c.num_attention_heads = f.size("num_attention_heads", 12, kMaxHeads);
  c.num_key_value_heads = c.num_attention_heads;
  c.max_position_embeddings = f.size("max_position_embeddings", 2048, kMaxPositions);
  c.initializer_range = f.non_negative("init_std", 0.02);
  c.norm_eps = 1e-5;
  c.tie_word_embeddings = f.flag("tie_word_embeddings", true);
  c.qkv_bias = c.attention_output_bias = c.mlp_bias = f.flag("enable_bias", true);
  c.residual_dropout = f.rate("dropout", 0.1);
  c.attention_dropout = f.rate("attention_dropout", 0);
  read_activation(f, c, "activation_function", "relu", HfGate::none);
  settle_heads(f, c, "num_attention_heads", /*any_head_dim=*/false);
}

void read_bert(const HfFields& f, HfConfig& c) {
  must_be(f, "is_decoder", false);
  must_be(f, "add_cross_attention", false);
  must_be(f, "tie_word_embeddings", true);
  if (const auto kind = f.text("position_embedding_type", "absolute"); kind != "absolute") {
    throw f.refusal("position_embedding_type", "is '{}', which Snug does not support", kind)
        .hint("supported: absolute");
  }
  c.vocab_size = f.size("vocab_size", 30522, kMaxVocab);
  c.padding_token = read_padding(f, c, 0);
  c.hidden_size = f.size("hidden_size", 768, kMaxWidth);
  c.intermediate_size = f.size("intermediate_size", 3072, kMaxInner);
  c.num_hidden_layers = f.size("num_hidden_layers", 12, kMaxLayers);
  c.num_attention_heads = f.size("num_attention_heads", 12, kMaxHeads);
  c.num_key_value_heads = c.num_attention_heads;
  c.max_position_embeddings = f.size("max_position_embeddings", 512, kMaxPositions);
  c.type_vocab_size = f.size("type_vocab_size", 2, kMaxTypes);
  c.norm_eps = f.positive("layer_norm_eps", 1e-12);
  c.tie_word_embeddings = true;
  c.qkv_bias = c.attention_output_bias = c.mlp_bias = true;
  c.embedding_dropout = c.residual_dropout = f.rate("hidden_dropout_prob", 0.1);
  c.attention_dropout = f.rate("attention_probs_dropout_prob", 0.1);
  read_activation(f, c, "hidden_act", "gelu", HfGate::none);
  settle_heads(f, c, "num_attention_heads", /*any_head_dim=*/false);
}

// Families whose names are an edit or two from a supported one.
bool is_another_family(std::string_view word) {
  constexpr std::array<std::string_view, 12> others{
      "albert",    "camembert", "deberta",    "distilbert", "flaubert", "mixtral",
      "ministral", "mllama",    "mobilebert", "modernbert", "roberta",  "xlm"};
  return std::ranges::find(others, word) != others.end();
}

const std::vector<std::string>& families() {
  static const std::vector<std::string> all{"gpt2",     "llama",    "qwen2", "qwen3",
                                            "mistral",  "olmo2",    "phi3",  "gemma3_text",
                                            "stablelm", "gpt_neox", "opt",   "bert"};
  return all;
}

}  // namespace

std::string did_you_mean_model(std::string_view word, std::span<const std::string> candidates) {
  const auto digits = [](std::string_view text) {
    std::string found;
    std::ranges::copy_if(text, std::back_inserter(found),
                         [](char c) { return c >= '0' && c <= '9'; });
    std::ranges::sort(found);
    return found;
  };
  const std::string_view family = word.substr(0, word.find_first_of("-_:0123456789"));
  if (word == "gpt_neo" || is_another_family(family)) return "";
  std::vector<std::string> near(candidates.begin(), candidates.end());
  std::erase_if(near, [&](const std::string& name) { return digits(name) != digits(word); });
  return did_you_mean(word, near);
}

HfConfig parse_hf_config(std::string_view text, std::string_view where) {
  const HfJson json = parse_json_object(text, where);
  const HfFields f(json, where);
  HfConfig c;
  c.original = text;
  c.model_type = f.text("model_type", "");
  if (c.model_type.empty()) {
    throw f.refusal("model_type", "is missing")
        .hint("it names the family: " + join(families(), ", "));
  }
  if (is_mixture_of_experts(c.model_type)) throw experts_refused(f, c.model_type);
  if (std::ranges::find(families(), c.model_type) == families().end()) {
    throw f
        .refusal("model_type", "is '{}', a family that Snug does not support{}", c.model_type,
                 did_you_mean_model(c.model_type, families()))
        .hint("supported: " + join(families(), ", "));
  }
  refuse_what_no_family_supports(f);
  c.dtype = f.text(f.either("dtype", "torch_dtype"), "float32");
  c.initializer_range = f.non_negative("initializer_range", 0.02);
  if (c.model_type == "gpt2") {
    read_gpt2(f, c);
  } else if (c.model_type == "opt") {
    read_opt(f, c);
  } else if (c.model_type == "bert") {
    read_bert(f, c);
  } else {
    read_rotary(f, c);
  }
  return c;
}

HfConfig load_hf_config(const std::filesystem::path& file_or_directory) {
  namespace fs = std::filesystem;
  fs::path file = file_or_directory;
  std::error_code ignored;
  if (fs::is_directory(file, ignored)) {
    file /= "config.json";
    if (!fs::exists(file, ignored)) {
      throw bad_input("{} has no config.json", file_or_directory.string())
          .hint("a model is a directory as transformers saves it, or its config.json");
    }
  }
  if (fs::is_regular_file(file, ignored) && fs::file_size(file, ignored) > kMaxFileBytes) {
    throw bad_input("{} is {}, far too large for a config.json", file.string(),
                    format_bytes(static_cast<int64_t>(fs::file_size(file, ignored))));
  }
  return parse_hf_config(read_file(file), file.string());
}

std::string check_sequence(const HfConfig& c, int64_t T) {
  if (T <= c.max_position_embeddings) return "";
  if (!c.has_rope()) {
    throw usage_error("a sequence of {} is longer than the {} positions that the model has learned",
                      T, c.max_position_embeddings)
        .hint(fmt::format("use --seq {} or less", c.max_position_embeddings));
  }
  return fmt::format("a sequence of {} is longer than the {} positions the model was made for", T,
                     c.max_position_embeddings);
}

}  // namespace snug

#include "formats/hf_config.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/text.h"
#include "base/units.h"
#include "formats/hf_fields.h"

namespace snug {
namespace {

// Beyond any model that exists, and small enough that no product of two of them and a layer count
// passes 63 bits.
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxWidth = 1 << 20;
constexpr int64_t kMaxHeads = 1 << 14;
constexpr int64_t kMaxHeadDim = 1 << 12;
constexpr int64_t kMaxInner = 1 << 23;
constexpr int64_t kMaxVocab = 1 << 26;
constexpr int64_t kMaxPositions = 1 << 28;
constexpr int64_t kMaxTypes = 1 << 10;
constexpr int64_t kMaxAttentionWidth = 1 << 22;
constexpr std::uintmax_t kMaxFileBytes = 16 << 20;

void must_be(const HfFields& f, std::string_view key, bool supported) {
  if (f.flag(key, supported) != supported) {
    throw f.refusal(key, "is {}, which Snug does not support", !supported);
  }
}

void refuse_what_no_family_supports(const HfFields& f) {
  if (f.has("quantization_config")) {
    throw f.refusal("quantization_config", "is set; quantised weights cannot be trained")
        .hint("use the model's unquantised directory");
  }
  if (const HfJson* pruned = f.find("pruned_heads"); pruned != nullptr && !pruned->empty()) {
    throw f.refusal("pruned_heads", "is not empty, which Snug does not support");
  }
}

void read_activation(const HfFields& f, HfConfig& c, std::string_view key, std::string otherwise,
                     bool gated) {
  c.hidden_act = f.text(key, std::move(otherwise));
  constexpr std::array<std::pair<std::string_view, HfActivation>, 7> known{{
      {"gelu", HfActivation::gelu},
      {"gelu_python", HfActivation::gelu},
      {"gelu_new", HfActivation::gelu_tanh},
      {"gelu_fast", HfActivation::gelu_tanh},
      {"gelu_pytorch_tanh", HfActivation::gelu_tanh},
      {"silu", HfActivation::silu},
      {"swish", HfActivation::silu},
  }};
  for (const auto& [name, activation] : known) {
    if (name != c.hidden_act || (activation == HfActivation::silu) != gated) continue;
    c.activation = activation;
    return;
  }
  throw f.refusal(key, "is '{}', which Snug does not support for {}", c.hidden_act, c.model_type)
      .hint(gated ? "supported: silu" : "supported: gelu, gelu_new, gelu_pytorch_tanh");
}

// head_dim from hidden_size where the file gives none, and the divisions that attention relies on.
void settle_heads(const HfFields& f, HfConfig& c, std::string_view heads_key, bool any_head_dim) {
  const int64_t heads = c.num_attention_heads;
  if (c.hidden_size % heads != 0 && !(any_head_dim && c.head_dim > 0)) {
    throw f.refusal(heads_key, "is {} and does not divide the width of {}", heads, c.hidden_size);
  }
  if (c.head_dim == 0) c.head_dim = c.hidden_size / heads;
  if (heads % c.num_key_value_heads != 0) {
    throw f.refusal("num_key_value_heads", "is {} and does not divide the {} attention heads",
                    c.num_key_value_heads, heads);
  }
  if (c.has_rope() && c.head_dim % 2 != 0) {
    throw f.refusal("head_dim", "is {}; rotary positions need an even one", c.head_dim);
  }
  if (heads * c.head_dim > kMaxAttentionWidth) {
    throw f.refusal(heads_key, "is {} with heads of {}: more than the {} columns that Snug takes",
                    heads, c.head_dim, format_exact(kMaxAttentionWidth));
  }
}

// What torch does with padding_idx: a negative one counts from the end of the vocabulary.
std::optional<int64_t> read_padding(const HfFields& f, const HfConfig& c,
                                    std::optional<int64_t> otherwise) {
  return f.nullable_index("pad_token_id", otherwise, c.vocab_size);
}

// --- rotary positions
// -----------------------------------------------------------------------------

// r: rope_parameters or rope_scaling, f: the whole file.
HfRope rope_of(const HfFields& f, const HfFields& r, int64_t positions) {
  HfRope rope;
  for (const char* layer_type : {"full_attention", "sliding_attention"}) {
    if (r.has(layer_type)) {
      throw r.refusal(layer_type, "is set; rotary positions per layer type are not supported");
    }
  }
  rope.theta = r.positive("rope_theta", f.positive("rope_theta", rope.theta));
  if (f.has("rope_theta") && f.positive("rope_theta", 0) != rope.theta) {
    throw r.refusal("rope_theta", "is {} but rope_theta is {}", rope.theta,
                    f.positive("rope_theta", 0));
  }
  if (const double part = r.number("partial_rotary_factor", 1); part != 1) {
    throw r.refusal("partial_rotary_factor", "is {}; Snug turns whole heads only", part);
  }
  const std::string_view key = r.either("rope_type", "type");
  const std::string type = r.text(key, "default");
  if (type == "default") return rope;
  if (type != "linear" && type != "llama3") {
    throw r.refusal(key, "is '{}', which Snug does not support", type)
        .hint("supported: default, linear, llama3");
  }
  if (!r.has("factor")) throw r.refusal("factor", "is missing; rope type '{}' needs it", type);
  rope.factor = r.positive("factor", 1);
  rope.kind = HfRope::Kind::linear;
  if (type == "linear") return rope;

  rope.kind = HfRope::Kind::llama3;
  for (const char* needed : {"low_freq_factor", "high_freq_factor"}) {
    if (!r.has(needed)) throw r.refusal(needed, "is missing; rope type 'llama3' needs it");
  }
  rope.low_freq_factor = r.positive("low_freq_factor", 1);
  rope.high_freq_factor = r.positive("high_freq_factor", 4);
  if (rope.high_freq_factor <= rope.low_freq_factor) {
    throw r.refusal("high_freq_factor", "is {} and must exceed low_freq_factor, {}",
                    rope.high_freq_factor, rope.low_freq_factor);
  }
  const char* original = "original_max_position_embeddings";
  rope.original_positions = f.has(original) ? f.size(original, 0, kMaxPositions)
                                            : r.size(original, positions, kMaxPositions);
  return rope;
}

// Both spellings: rope_parameters (transformers 5), or rope_theta beside rope_scaling.
HfRope read_rope(const HfFields& f, int64_t positions) {
  if (const double part = f.number("partial_rotary_factor", 1); part != 1) {
    throw f.refusal("partial_rotary_factor", "is {}; Snug turns whole heads only", part);
  }
  const auto parameters = f.object("rope_parameters");
  const auto scaling = f.object("rope_scaling");
  if (!parameters && !scaling) return {.theta = f.positive("rope_theta", HfRope{}.theta)};
  const HfRope rope = rope_of(f, parameters ? *parameters : *scaling, positions);
  if (parameters && scaling && rope_of(f, *scaling, positions) != rope) {
    throw f.refusal("rope_scaling", "says something else than rope_parameters")
        .hint("keep one of the two");
  }
  return rope;
}

// --- sliding windows
// ------------------------------------------------------------------------------

struct LayerTypes {
  bool given = false;
  bool sliding = false;
};

LayerTypes read_layer_types(const HfFields& f) {
  const HfJson* types = f.find("layer_types");
  if (types == nullptr) return {};
  if (!types->is_array()) throw f.wrong_type("layer_types", "a list of strings");
  LayerTypes found{.given = true};
  for (const HfJson& type : *types) {
    if (type == "sliding_attention") {
      found.sliding = true;
    } else if (type != "full_attention") {
      throw f.refusal("layer_types", "holds {}, which Snug does not support", type.dump());
    }
  }
  return found;
}

// The window of some layer, if any layer has one. mistral: every layer's; qwen2: only when
// use_sliding_window is true.
std::optional<int64_t> read_window(const HfFields& f, const HfConfig& c,
                                   std::optional<int64_t> otherwise) {
  const bool mistral = c.model_type == "mistral";
  const auto size = f.nullable_size("sliding_window", otherwise, kMaxPositions);
  const bool on = mistral || f.flag("use_sliding_window", c.model_type != "qwen2");
  const LayerTypes layers = read_layer_types(f);
  if (layers.sliding && !(on && size)) {
    throw f.refusal("layer_types", "holds \"sliding_attention\" but no sliding window is in use");
  }
  if (!on || (layers.given && !layers.sliding && !mistral)) return std::nullopt;
  const auto first =
      f.number("max_window_layers", -1);  // qwen2: the first layer that has the window
  const auto depth = static_cast<double>(c.num_hidden_layers);
  if (!layers.given && f.has("max_window_layers") && first >= depth) return std::nullopt;
  return size;
}

// --- families
// -------------------------------------------------------------------------------------

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
  read_activation(f, c, "activation_function", "gelu_new", /*gated=*/false);
  settle_heads(f, c, heads, /*any_head_dim=*/false);
}

// What the configuration classes of the rotary families say where a file does not.
struct RotaryDefaults {
  int64_t vocab, inner, positions;
  std::optional<int64_t> kv_heads, window;
};

RotaryDefaults defaults_of(std::string_view model_type) {
  if (model_type == "qwen2") return {151936, 22016, 32768, 32, 4096};
  if (model_type == "mistral") return {32000, 14336, 131072, 8, 4096};
  return {32000, 11008, 2048, std::nullopt, std::nullopt};
}

void read_rotary(const HfFields& f, HfConfig& c) {
  const bool llama = c.model_type == "llama";
  const RotaryDefaults d = defaults_of(c.model_type);
  c.vocab_size = f.size("vocab_size", d.vocab, kMaxVocab);
  c.padding_token = read_padding(f, c, std::nullopt);
  c.hidden_size = f.size("hidden_size", 4096, kMaxWidth);
  c.intermediate_size = f.size("intermediate_size", d.inner, kMaxInner);
  c.num_hidden_layers = f.size("num_hidden_layers", 32, kMaxLayers);
  c.num_attention_heads = f.size("num_attention_heads", 32, kMaxHeads);
  c.num_key_value_heads =
      f.nullable_size("num_key_value_heads", d.kv_heads, kMaxHeads).value_or(c.num_attention_heads);
  c.head_dim = f.nullable_size("head_dim", std::nullopt, kMaxHeadDim).value_or(0);
  c.max_position_embeddings = f.size("max_position_embeddings", d.positions, kMaxPositions);
  c.norm_eps = f.positive("rms_norm_eps", 1e-6);
  c.tie_word_embeddings = f.flag("tie_word_embeddings", false);
  c.attention_dropout = f.rate("attention_dropout", 0);
  if (!llama) must_be(f, "mlp_bias", false);
  if (c.model_type == "mistral") must_be(f, "attention_bias", false);
  c.attention_output_bias = llama && f.flag("attention_bias", false);
  c.qkv_bias = c.attention_output_bias || c.model_type == "qwen2";
  c.mlp_bias = f.flag("mlp_bias", false);
  read_activation(f, c, "hidden_act", "silu", /*gated=*/true);
  settle_heads(f, c, "num_attention_heads", /*any_head_dim=*/!llama);
  c.rope = read_rope(f, c.max_position_embeddings);
  c.sliding_window = read_window(f, c, d.window);
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
  read_activation(f, c, "hidden_act", "gelu", /*gated=*/false);
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
  static const std::vector<std::string> all{"gpt2", "llama", "qwen2", "mistral", "bert"};
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
  if (is_another_family(word.substr(0, word.find_first_of("-_:0123456789")))) return "";
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
  if (c.sliding_window && T > *c.sliding_window) {
    throw usage_error(
        "a sequence of {} is longer than sliding_window, {}, which Snug does not support", T,
        *c.sliding_window)
        .hint(fmt::format("use --seq {} or less", *c.sliding_window));
  }
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

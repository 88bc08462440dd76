// The families with rotary positions: llama and what differs from it in defaults, biases, norms,
// windows and how checkpoints pack their tensors.
#include <algorithm>
#include <array>

#include "formats/hf_family.h"

namespace snug {
namespace {

// --- rotary positions
// -----------------------------------------------------------------------------

// r: rope_parameters or rope_scaling, f: the whole file; theta: where neither names it.
HfRope rope_of(const HfFields& f, const HfFields& r, double theta, int64_t positions) {
  HfRope rope;
  for (const char* layer_type : {"full_attention", "sliding_attention"}) {
    if (r.has(layer_type)) {
      throw r.refusal(layer_type, "is set; rotary positions per layer type are not supported");
    }
  }
  rope.theta = r.positive("rope_theta", f.positive("rope_theta", theta));
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
HfRope read_rope(const HfFields& f, double theta, int64_t positions) {
  if (const double part = f.number("partial_rotary_factor", 1); part != 1) {
    throw f.refusal("partial_rotary_factor", "is {}; Snug turns whole heads only", part);
  }
  const auto parameters = f.object("rope_parameters");
  const auto scaling = f.object("rope_scaling");
  if (!parameters && !scaling) return {.theta = f.positive("rope_theta", theta)};
  const HfRope rope = rope_of(f, parameters ? *parameters : *scaling, theta, positions);
  if (parameters && scaling && rope_of(f, *scaling, theta, positions) != rope) {
    throw f.refusal("rope_scaling", "says something else than rope_parameters")
        .hint("keep one of the two");
  }
  return rope;
}

// Gemma 3: layers with a window have a base of their own, and only the others' are stretched. In
// transformers 5 rope_parameters names both kinds of layers.
void read_gemma_rope(const HfFields& f, HfConfig& c) {
  constexpr double kGlobal = 1e6, kLocal = 1e4;
  const auto parameters = f.object("rope_parameters");
  const auto scaling = f.object("rope_scaling");
  const auto local = parameters ? parameters->object("sliding_attention") : std::nullopt;
  const auto global = parameters ? parameters->object("full_attention") : std::nullopt;
  c.local_theta = f.positive("rope_local_base_freq", kLocal);
  if (local) {
    c.local_theta = local->positive("rope_theta", c.local_theta);
    if (f.has("rope_local_base_freq") && f.positive("rope_local_base_freq", 0) != c.local_theta) {
      throw local->refusal("rope_theta", "is {} but rope_local_base_freq is {}", c.local_theta,
                           f.positive("rope_local_base_freq", 0));
    }
    if (const std::string type = local->text("rope_type", "default"); type != "default") {
      throw local->refusal("rope_type", "is '{}', which Snug does not support", type);
    }
  }
  c.rope.theta = f.positive("rope_theta", kGlobal);
  const int64_t positions = c.max_position_embeddings;
  if (scaling) c.rope = rope_of(f, *scaling, kGlobal, positions);
  if (!global) return;
  const HfRope named = rope_of(f, *global, kGlobal, positions);
  if (scaling && named != c.rope) {
    throw f.refusal("rope_scaling", "says something else than rope_parameters.full_attention")
        .hint("keep one of the two");
  }
  c.rope = named;
}

// --- sliding windows
// ------------------------------------------------------------------------------

// Which layers have the window, as layer_types says; none where the file does not.
std::optional<std::vector<bool>> read_layer_types(const HfFields& f) {
  const HfJson* types = f.find("layer_types");
  if (types == nullptr) return std::nullopt;
  if (!types->is_array()) throw f.wrong_type("layer_types", "a list of strings");
  std::vector<bool> sliding;
  for (const HfJson& type : *types) {
    if (type != "sliding_attention" && type != "full_attention") {
      throw f.refusal("layer_types", "holds {}, which Snug does not support", type.dump());
    }
    sliding.push_back(type == "sliding_attention");
  }
  return sliding;
}

// The shortest beginning that gives the whole when it is repeated.
std::vector<bool> shortest_period(std::vector<bool> layers) {
  for (size_t n = 1; n < layers.size(); ++n) {
    size_t i = n;
    while (i < layers.size() && layers[i] == layers[i - n]) ++i;
    if (i == layers.size()) {
      layers.resize(n);
      break;
    }
  }
  return layers;
}

// Where no layer_types are given: qwen's layers from max_window_layers on, all of gemma's but every
// sixth.
std::vector<bool> usual_window_layers(const HfFields& f, const HfConfig& c) {
  const bool gemma = c.model_type == "gemma3_text";
  const int64_t every = gemma ? f.size("sliding_window_pattern", 6, kMaxLayers) : 1;
  const double first = gemma ? 0 : f.non_negative("max_window_layers", 28);
  std::vector<bool> layers;
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) {
    layers.push_back(gemma ? (i + 1) % every != 0 : static_cast<double>(i) >= first);
  }
  return layers;
}

// mistral and phi3: every layer has the window; qwen: only when use_sliding_window is true, and
// like gemma's some layers only. llama and olmo2 have none, whatever their files say.
void read_window(const HfFields& f, HfConfig& c, std::optional<int64_t> otherwise) {
  const bool qwen = c.model_type == "qwen2" || c.model_type == "qwen3";
  const bool some_layers = qwen || c.model_type == "gemma3_text";
  if (!some_layers && c.model_type != "mistral" && c.model_type != "phi3") return;
  const auto size = f.nullable_size("sliding_window", otherwise, kMaxPositions);
  const bool on = size && (!qwen || f.flag("use_sliding_window", false));
  const auto named = read_layer_types(f);
  if (!some_layers) {
    c.sliding_window = size;
    return;
  }
  if (named && !on && std::ranges::find(*named, true) != named->end()) {
    throw f.refusal("layer_types", "holds \"sliding_attention\" but no sliding window is in use");
  }
  if (named && static_cast<int64_t>(named->size()) != c.num_hidden_layers) {
    throw f.refusal("layer_types", "has {} entries for {} layers", named->size(),
                    c.num_hidden_layers);
  }
  if (!on) return;
  const std::vector<bool> layers = named ? *named : usual_window_layers(f, c);
  if (std::ranges::find(layers, true) == layers.end()) return;
  c.sliding_window = size;
  c.window_layers = shortest_period(layers);
}

// --- families
// -------------------------------------------------------------------------------------

// What the configuration classes of the families say where a file does not.
struct Defaults {
  std::string_view model_type;
  int64_t vocab, width, inner, layers, heads, positions;
  double eps;
  std::optional<int64_t> kv_heads, head_dim, window, padding;
};

const Defaults& defaults_of(std::string_view model_type) {
  constexpr auto none = std::nullopt;
  // clang-format off
  static const std::array<Defaults, 7> all{{
      {"llama",        32000, 4096, 11008, 32, 32,   2048, 1e-6, none, none, none,  none},
      {"qwen2",       151936, 4096, 22016, 32, 32,  32768, 1e-6,   32, none, 4096,  none},
      {"qwen3",       151936, 4096, 22016, 32, 32,  32768, 1e-6,   32,  128, 4096,  none},
      {"mistral",      32000, 4096, 14336, 32, 32, 131072, 1e-6,    8, none, 4096,  none},
      {"olmo2",        50304, 4096, 11008, 32, 32,   2048, 1e-5, none, none, none,     1},
      {"phi3",         32064, 3072,  8192, 32, 32,   4096, 1e-5, none, none, none, 32000},
      {"gemma3_text", 262208, 2304,  9216, 26,  8, 131072, 1e-6,    4,  256, 4096,     0},
  }};
  // clang-format on
  return *std::ranges::find(all, model_type, &Defaults::model_type);
}

// Which projections have biases.
void read_biases(const HfFields& f, HfConfig& c) {
  const bool llama = c.model_type == "llama";
  const bool optional =
      llama || c.model_type == "qwen3" || c.model_type == "olmo2" || c.model_type == "gemma3_text";
  if (!llama) must_be(f, "mlp_bias", false);
  if (c.model_type == "mistral" || c.model_type == "phi3") must_be(f, "attention_bias", false);
  c.attention_output_bias = optional && f.flag("attention_bias", false);
  c.qkv_bias = c.attention_output_bias || c.model_type == "qwen2";
  c.mlp_bias = f.flag("mlp_bias", false);
}

void read_gemma(const HfFields& f, HfConfig& c) {
  must_be(f, "use_bidirectional_attention", false);
  for (const char* cap : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (f.has(cap)) throw f.refusal(cap, "is set, which Snug does not support");
  }
  c.query_scalar = f.size("query_pre_attn_scalar", 256, kMaxAttentionWidth);
  read_activation(f, c, "hidden_activation", "gelu_pytorch_tanh", HfGate::gelu);
  read_gemma_rope(f, c);
}

}  // namespace

void read_rotary(const HfFields& f, HfConfig& c) {
  const bool gemma = c.model_type == "gemma3_text";
  const Defaults& d = defaults_of(c.model_type);
  c.vocab_size = f.size("vocab_size", d.vocab, kMaxVocab);
  c.padding_token = read_padding(f, c, d.padding);
  c.hidden_size = f.size("hidden_size", d.width, kMaxWidth);
  c.intermediate_size = f.size("intermediate_size", d.inner, kMaxInner);
  c.num_hidden_layers = f.size("num_hidden_layers", d.layers, kMaxLayers);
  c.num_attention_heads = f.size("num_attention_heads", d.heads, kMaxHeads);
  c.num_key_value_heads =
      f.nullable_size("num_key_value_heads", d.kv_heads, kMaxHeads).value_or(c.num_attention_heads);
  c.head_dim = f.nullable_size("head_dim", d.head_dim, kMaxHeadDim).value_or(0);
  c.max_position_embeddings = f.size("max_position_embeddings", d.positions, kMaxPositions);
  c.norm_eps = f.positive("rms_norm_eps", d.eps);
  c.tie_word_embeddings = f.flag("tie_word_embeddings", gemma);
  c.attention_dropout = f.rate("attention_dropout", 0);
  if (c.model_type == "phi3") c.residual_dropout = f.rate("resid_pdrop", 0);
  read_biases(f, c);
  settle_heads(f, c, "num_attention_heads", /*any_head_dim=*/c.model_type != "llama");
  if (gemma) {
    read_gemma(f, c);
  } else {
    read_activation(f, c, "hidden_act", "silu", HfGate::silu);
    c.rope = read_rope(f, HfRope{}.theta, c.max_position_embeddings);
  }
  read_window(f, c, d.window);
}

}  // namespace snug

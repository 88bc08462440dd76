// The families with rotary positions: llama and what differs from it in defaults, biases, norms,
// windows and how checkpoints pack their tensors.
#include <algorithm>
#include <array>

#include "formats/hf_family.h"

namespace snug {
namespace {

// --- rotary positions
// -----------------------------------------------------------------------------

// Where a family has its base and its part, and what they are where no field names them.
struct RopeFields {
  const char* theta_key = "rope_theta";
  const char* part_key = "partial_rotary_factor";
  double theta = HfRope{}.theta;
  double part = 1;
  bool whole_heads = true;  // no other part is supported
};

double read_part(const HfFields& f, const char* key, const RopeFields& d, double otherwise) {
  const double part = f.positive(key, otherwise);
  if (d.whole_heads && part != 1) {
    throw f.refusal(key, "is {}; Snug turns whole heads only", part);
  }
  if (part > 1) throw f.refusal(key, "is {}, more than a whole head", part);
  return part;
}

// r: rope_parameters or rope_scaling, f: the whole file.
HfRope rope_of(const HfFields& f, const HfFields& r, const RopeFields& d, int64_t positions) {
  HfRope rope;
  for (const char* layer_type : {"full_attention", "sliding_attention"}) {
    if (r.has(layer_type)) {
      throw r.refusal(layer_type, "is set; rotary positions per layer type are not supported");
    }
  }
  rope.theta = r.positive("rope_theta", f.positive(d.theta_key, d.theta));
  if (f.has(d.theta_key) && f.positive(d.theta_key, 0) != rope.theta) {
    throw r.refusal("rope_theta", "is {} but {} is {}", rope.theta, d.theta_key,
                    f.positive(d.theta_key, 0));
  }
  rope.part = read_part(r, "partial_rotary_factor", d, read_part(f, d.part_key, d, d.part));
  if (f.has(d.part_key) && f.positive(d.part_key, 0) != rope.part) {
    throw r.refusal("partial_rotary_factor", "is {} but {} is {}", rope.part, d.part_key,
                    f.positive(d.part_key, 0));
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
HfRope read_rope(const HfFields& f, const RopeFields& d, int64_t positions) {
  const double part = read_part(f, d.part_key, d, d.part);
  const auto parameters = f.object("rope_parameters");
  const auto scaling = f.object("rope_scaling");
  if (!parameters && !scaling) return {.theta = f.positive(d.theta_key, d.theta), .part = part};
  const HfRope rope = rope_of(f, parameters ? *parameters : *scaling, d, positions);
  if (parameters && scaling && rope_of(f, *scaling, d, positions) != rope) {
    throw f.refusal("rope_scaling", "says something else than rope_parameters")
        .hint("keep one of the two");
  }
  return rope;
}

// Gemma 3: layers with a window have a base of their own, and only the others' are stretched. In
// transformers 5 rope_parameters names both kinds of layers.
void read_gemma_rope(const HfFields& f, HfConfig& c) {
  constexpr RopeFields kGlobal{.theta = 1e6};
  constexpr double kLocal = 1e4;
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
  c.rope.theta = f.positive("rope_theta", kGlobal.theta);
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
  static const std::array<Defaults, 9> all{{
      {"llama",        32000, 4096, 11008, 32, 32,   2048, 1e-6, none, none, none,  none},
      {"qwen2",       151936, 4096, 22016, 32, 32,  32768, 1e-6,   32, none, 4096,  none},
      {"qwen3",       151936, 4096, 22016, 32, 32,  32768, 1e-6,   32,  128, 4096,  none},
      {"mistral",      32000, 4096, 14336, 32, 32, 131072, 1e-6,    8, none, 4096,  none},
      {"olmo2",        50304, 4096, 11008, 32, 32,   2048, 1e-5, none, none, none,     1},
      {"phi3",         32064, 3072,  8192, 32, 32,   4096, 1e-5, none, none, none, 32000},
      {"gemma3_text", 262208, 2304,  9216, 26,  8, 131072, 1e-6,    4,  256, 4096,     0},
      {"stablelm",     50304, 2560,  6912, 32, 32,   4096, 1e-5,   32, none, none,  none},
      {"gpt_neox",     50432, 6144, 24576, 44, 64,   2048, 1e-5, none, none, none,  none},
  }};
  // clang-format on
  return *std::ranges::find(all, model_type, &Defaults::model_type);
}

// Which projections have biases.
void read_biases(const HfFields& f, HfConfig& c) {
  if (c.model_type == "stablelm") {
    c.qkv_bias = f.flag("use_qkv_bias", false);
    return;
  }
  if (c.model_type == "gpt_neox") {
    c.qkv_bias = c.attention_output_bias = f.flag("attention_bias", true);
    c.mlp_bias = true;
    return;
  }
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

// A part of each head turns, and both parts of a layer may read the same sum.
RopeFields read_partial(const HfFields& f, HfConfig& c) {
  if (c.model_type == "stablelm") {
    must_be(f, "qk_layernorm", false);
    if (f.rate("hidden_dropout", 0) != 0) {
      throw f.refusal("hidden_dropout", "is not 0, which Snug does not support for stablelm");
    }
    c.parallel_residual = f.flag("use_parallel_residual", false);
    read_activation(f, c, "hidden_act", "silu", HfGate::silu);
    return {.part = 0.25, .whole_heads = false};
  }
  c.parallel_residual = f.flag("use_parallel_residual", true);
  c.embedding_dropout = c.residual_dropout = f.rate("hidden_dropout", 0);
  read_activation(f, c, "hidden_act", "gelu", HfGate::none);
  return {
      .theta_key = "rotary_emb_base", .part_key = "rotary_pct", .part = 0.25, .whole_heads = false};
}

void require_pairs(const HfFields& f, const HfConfig& c) {
  if (c.rotary_dim() >= 2 && c.rotary_dim() % 2 == 0) return;
  throw f.refusal(c.model_type == "gpt_neox" ? "rotary_pct" : "partial_rotary_factor",
                  "is {}: {} of a head's {} elements turn, which are no pairs", c.rope.part,
                  c.rotary_dim(), c.head_dim);
}

}  // namespace

void read_rotary(const HfFields& f, HfConfig& c) {
  const bool gemma = c.model_type == "gemma3_text", neox = c.model_type == "gpt_neox";
  const bool partial = neox || c.model_type == "stablelm";
  const Defaults& d = defaults_of(c.model_type);
  c.vocab_size = f.size("vocab_size", d.vocab, kMaxVocab);
  if (!neox) c.padding_token = read_padding(f, c, d.padding);
  c.hidden_size = f.size("hidden_size", d.width, kMaxWidth);
  c.intermediate_size = f.size("intermediate_size", d.inner, kMaxInner);
  c.num_hidden_layers = f.size("num_hidden_layers", d.layers, kMaxLayers);
  c.num_attention_heads = f.size("num_attention_heads", d.heads, kMaxHeads);
  c.num_key_value_heads = c.num_attention_heads;
  if (const auto named = f.nullable_size("num_key_value_heads", d.kv_heads, kMaxHeads);
      named && !neox)
    c.num_key_value_heads = *named;
  if (!partial) c.head_dim = f.nullable_size("head_dim", d.head_dim, kMaxHeadDim).value_or(0);
  c.max_position_embeddings = f.size("max_position_embeddings", d.positions, kMaxPositions);
  c.norm_eps = f.positive(partial ? "layer_norm_eps" : "rms_norm_eps", d.eps);
  c.tie_word_embeddings = f.flag("tie_word_embeddings", gemma);
  c.attention_dropout = f.rate("attention_dropout", 0);
  if (c.model_type == "phi3") c.residual_dropout = f.rate("resid_pdrop", 0);
  read_biases(f, c);
  settle_heads(f, c, "num_attention_heads", /*any_head_dim=*/c.model_type != "llama" && !partial);
  if (gemma) {
    read_gemma(f, c);
  } else if (partial) {
    c.rope = read_rope(f, read_partial(f, c), c.max_position_embeddings);
    require_pairs(f, c);
  } else {
    read_activation(f, c, "hidden_act", "silu", HfGate::silu);
    c.rope = read_rope(f, {}, c.max_position_embeddings);
  }
  read_window(f, c, d.window);
}

}  // namespace snug

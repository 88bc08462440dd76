// Gemma 3, its text: norms around each part, whose weights are stored around 0, norms of queries and
// keys, a gelu gate, scaled embeddings, and layers with a window between those without.
#include <array>
#include <cmath>

#include "models/families/rotary.h"
#include "models/families/windows.h"

namespace snug {
namespace {

// Gemma 3: layers with a window have a base of their own, and only the others' are stretched. In
// transformers 5 rope_parameters names both kinds of layers.
void read_gemma_rope(const JsonFields& f, HfConfig& c) {
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

void read_gemma3(const JsonFields& f, HfConfig& c) {
  read_llama_sizes(f, c,
                   {.vocab = 262208,
                    .width = 2304,
                    .inner = 9216,
                    .layers = 26,
                    .heads = 8,
                    .positions = 131072,
                    .eps = 1e-6,
                    .kv_heads = 4,
                    .head_dim = 256,
                    .padding = 0,
                    .tied = true});
  must_be(f, "mlp_bias", false);
  c.qkv_bias = c.attention_output_bias = f.flag("attention_bias", false);
  settle_heads(f, c, "num_attention_heads", /*any_head_dim=*/true);
  must_be(f, "use_bidirectional_attention", false);
  for (const char* cap : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (f.has(cap)) throw f.refusal(cap, "is set, which Snug does not support");
  }
  c.query_scalar = f.size("query_pre_attn_scalar", 256, kMaxAttentionWidth);
  read_activation(f, c, "hidden_activation", "gelu_pytorch_tanh", HfGate::gelu);
  read_gemma_rope(f, c);
  const auto window = f.nullable_size("sliding_window", 4096, kMaxPositions);
  read_layer_windows(f, c, window, [&](int64_t layer) {
    return (layer + 1) % f.size("sliding_window_pattern", 6, kMaxLayers) != 0;
  });
}

void write_gemma3(const HfConfig& c, OrderedJson& json) {
  write_llama_sizes(c, json, "hidden_activation");
  json["attention_bias"] = c.qkv_bias;
  json["query_pre_attn_scalar"] = c.query_scalar;
  write_window(c, json);
  write_layer_types(c, json);
  json["rope_theta"] = c.rope.theta;
  json["rope_scaling"] = rope_scaling(c.rope);
  json["rope_local_base_freq"] = c.local_theta;
  json["rope_parameters"] = {
      {"full_attention", rope_parameters(c.rope)},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", c.local_theta}}}};
}

ModelParts gemma3_parts(const HfConfig& hf) {
  parts::Block block = llama_block(hf);
  add_qk_norm(block.attention, parts::Attention::QkNorm::head);
  if (hf.query_scalar != hf.head_dim)
    block.attention.score_scale = 1 / std::sqrt(static_cast<double>(hf.query_scalar));
  block.norm.offset = 1;
  block.norm_place = parts::Block::NormPlace::around_part;
  block.mlp.activation = parts::Activation::geglu;
  block.attention_part_norm_tensor = "post_attention_layernorm";
  block.mlp_norm_tensor = "pre_feedforward_layernorm";
  block.mlp_part_norm_tensor = "post_feedforward_layernorm";
  ModelParts m = llama_parts(hf, block);
  m.embedding.scale = std::sqrt(static_cast<double>(hf.hidden_size));
  for (parts::Block& b : m.stacks.front().blocks) {
    if (b.attention.window > 0)
      b.attention.rope = {.theta = hf.local_theta, .dim = hf.rotary_dim()};
  }
  return m;
}

// Gemma 3 1B was trained on 32768 positions; the frequencies of the others are stretched 8 times.
constexpr std::string_view kGemma1b =
    R"(, "head_dim": 256, "query_pre_attn_scalar": 256, "sliding_window": 512)";
constexpr std::string_view kGemma =
    R"(, "head_dim": 256, "query_pre_attn_scalar": 256, "sliding_window": 1024,
         "rope_scaling": {"rope_type": "linear", "factor": 8.0})";
constexpr std::string_view kGemma27b =
    R"(, "head_dim": 128, "query_pre_attn_scalar": 168, "sliding_window": 1024,
         "rope_scaling": {"rope_type": "linear", "factor": 8.0})";
// clang-format off
constexpr std::array<RotarySize, 4> kGemma3Sizes{{
    {"gemma3-1b",  "Gemma 3 1B",            1152, 26,  4,  1,  6912, 262144,  32768, 1e-6, 1e6, true, kGemma1b},
    {"gemma3-4b",  "Gemma 3 4B, its text",  2560, 34,  8,  4, 10240, 262208, 131072, 1e-6, 1e6, true, kGemma},
    {"gemma3-12b", "Gemma 3 12B, its text", 3840, 48, 16,  8, 15360, 262208, 131072, 1e-6, 1e6, true, kGemma},
    {"gemma3-27b", "Gemma 3 27B, its text", 5376, 62, 32, 16, 21504, 262208, 131072, 1e-6, 1e6, true, kGemma27b},
}};
// clang-format on

}  // namespace

extern const Family gemma3_family{
    .model_type = "gemma3_text",
    .architecture = "Gemma3ForCausalLM",
    .read = read_gemma3,
    .write = write_gemma3,
    .parts = gemma3_parts,
    .published = [] { return published_rotary("gemma3_text", kGemma3Sizes); },
    .base_prefix = "model.",
};

}  // namespace snug

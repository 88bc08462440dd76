#include "models/families/rotary.h"

#include <fmt/format.h>

namespace snug {
namespace {

ops::RopeScaling scaling_of(const HfRope& rope) {
  using Kind = ops::RopeScaling::Kind;
  switch (rope.kind) {
    case HfRope::Kind::standard:
      return {};
    case HfRope::Kind::linear:
      return {.kind = Kind::linear, .factor = rope.factor};
    case HfRope::Kind::llama3:
      break;
  }
  return {.kind = Kind::llama3,
          .factor = rope.factor,
          .low_freq_factor = rope.low_freq_factor,
          .high_freq_factor = rope.high_freq_factor,
          .original_positions = rope.original_positions};
}

double read_part(const JsonFields& f, const char* key, const RopeFields& d, double otherwise) {
  const double part = f.positive(key, otherwise);
  if (d.whole_heads && part != 1) {
    throw f.refusal(key, "is {}; Snug turns whole heads only", part);
  }
  if (part > 1) throw f.refusal(key, "is {}, more than a whole head", part);
  return part;
}

}  // namespace

HfRope rope_of(const JsonFields& f, const JsonFields& r, const RopeFields& d, int64_t positions) {
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

HfRope read_rope(const JsonFields& f, const RopeFields& d, int64_t positions) {
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

void require_pairs(const JsonFields& f, const HfConfig& c, std::string_view key) {
  if (c.rotary_dim() >= 2 && c.rotary_dim() % 2 == 0) return;
  throw f.refusal(key, "is {}: {} of a head's {} elements turn, which are no pairs", c.rope.part,
                  c.rotary_dim(), c.head_dim);
}

void read_rotary_sizes(const JsonFields& f, HfConfig& c, const RotaryDefaults& d) {
  c.rotary = true;
  c.vocab_size = f.size("vocab_size", d.vocab, kMaxVocab);
  c.hidden_size = f.size("hidden_size", d.width, kMaxWidth);
  c.intermediate_size = f.size("intermediate_size", d.inner, kMaxInner);
  c.num_hidden_layers = f.size("num_hidden_layers", d.layers, kMaxLayers);
  c.num_attention_heads = f.size("num_attention_heads", d.heads, kMaxHeads);
  c.num_key_value_heads =
      f.nullable_size("num_key_value_heads", d.kv_heads, kMaxHeads).value_or(c.num_attention_heads);
  c.max_position_embeddings = f.size("max_position_embeddings", d.positions, kMaxPositions);
  c.norm_eps = f.positive(d.eps_key, d.eps);
  c.tie_word_embeddings = f.flag("tie_word_embeddings", d.tied);
  c.attention_dropout = f.rate("attention_dropout", 0);
}

void read_llama_sizes(const JsonFields& f, HfConfig& c, const RotaryDefaults& d) {
  read_rotary_sizes(f, c, d);
  c.padding_token = read_padding(f, c, d.padding);
  c.head_dim = f.nullable_size("head_dim", d.head_dim, kMaxHeadDim).value_or(0);
}

void write_llama_sizes(const HfConfig& c, OrderedJson& json, const char* activation_key) {
  write_sizes(c, json, activation_key);
  json["num_key_value_heads"] = c.num_key_value_heads;
  json["head_dim"] = c.head_dim;
  json["rms_norm_eps"] = c.norm_eps;
  json["attention_dropout"] = c.attention_dropout;
}

OrderedJson rope_scaling(const HfRope& rope) {
  switch (rope.kind) {
    case HfRope::Kind::standard:
      return nullptr;
    case HfRope::Kind::linear:
      return {{"rope_type", "linear"}, {"factor", rope.factor}};
    case HfRope::Kind::llama3:
      break;
  }
  return {{"rope_type", "llama3"},
          {"factor", rope.factor},
          {"low_freq_factor", rope.low_freq_factor},
          {"high_freq_factor", rope.high_freq_factor},
          {"original_max_position_embeddings", rope.original_positions}};
}

OrderedJson rope_parameters(const HfRope& rope) {
  OrderedJson parameters = rope_scaling(rope);
  if (parameters.is_null()) parameters = {{"rope_type", "default"}};
  parameters["rope_theta"] = rope.theta;
  if (rope.part != 1) parameters["partial_rotary_factor"] = rope.part;
  return parameters;
}

void write_rope(const HfConfig& c, OrderedJson& json, const char* theta_key, const char* part_key) {
  json[theta_key] = c.rope.theta;
  if (part_key != nullptr) json[part_key] = c.rope.part;
  json["rope_scaling"] = rope_scaling(c.rope);
  json["rope_parameters"] = rope_parameters(c.rope);
}

parts::Block llama_block(const HfConfig& hf) {
  parts::Block block = common_block(hf);
  parts::Attention& a = block.attention;
  a.rope = {.theta = hf.rope.theta, .dim = hf.rotary_dim(), .scaling = scaling_of(hf.rope)};
  a.qkv_tensors = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};
  a.out_tensor = "self_attn.o_proj";
  block.mlp.in_tensors = {"mlp.gate_proj", "mlp.up_proj"};
  block.mlp.out_tensor = "mlp.down_proj";
  block.attention_norm_tensor = "input_layernorm";
  block.mlp_norm_tensor = "post_attention_layernorm";
  return block;
}

void add_qk_norm(parts::Attention& a, parts::Attention::QkNorm kind) {
  a.qk_norm = kind;
  a.q_norm_tensor = "self_attn.q_norm";
  a.k_norm_tensor = "self_attn.k_norm";
}

ModelParts llama_parts(const HfConfig& hf, const parts::Block& block) {
  ModelParts m = common_parts(hf, block);
  m.embedding.tokens_tensor = "model.embed_tokens";
  parts::Stack& stack = m.stacks.front();
  stack.name = "layers";
  stack.tensors = "model.layers";
  stack.norm_tensor = "model.norm";
  m.head.tensor = "lm_head";
  return m;
}

std::vector<CatalogueRow> published_rotary(std::string_view model_type,
                                           std::span<const RotarySize> sizes,
                                           std::string_view eps_key, std::string_view theta_key) {
  std::vector<CatalogueRow> rows;
  for (const RotarySize& m : sizes) {
    rows.push_back(
        {m.name, m.notes,
         fmt::format(
             R"({{"model_type": "{}", "hidden_size": {},
           "num_hidden_layers": {}, "num_attention_heads": {},
           "num_key_value_heads": {}, "intermediate_size": {}, "vocab_size": {},
           "max_position_embeddings": {}, "{}": {}, "{}": {},
           "tie_word_embeddings": {}{}{}}})",
             model_type, m.C, m.L, m.H, m.K, m.F, m.V, m.positions, eps_key, m.eps, theta_key,
             m.theta, m.tied, m.more,
             m.more.find("sliding_window") == m.more.npos ? R"(, "sliding_window": null)" : "")});
  }
  return rows;
}

}  // namespace snug

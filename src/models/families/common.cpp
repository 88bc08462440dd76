#include "models/families/common.h"

#include <algorithm>
#include <array>

#include "base/units.h"

namespace snug {
namespace {

parts::Activation activation_of(HfActivation activation) {
  switch (activation) {
    case HfActivation::gelu:
      return parts::Activation::gelu;
    case HfActivation::gelu_tanh:
      return parts::Activation::gelu_tanh;
    case HfActivation::relu:
      return parts::Activation::relu;
    case HfActivation::silu:
      break;
  }
  return parts::Activation::swiglu;
}

}  // namespace

void must_be(const JsonFields& f, std::string_view key, bool supported) {
  if (f.flag(key, supported) != supported) {
    throw f.refusal(key, "is {}, which Snug does not support", !supported);
  }
}

void read_activation(const JsonFields& f, HfConfig& c, std::string_view key, std::string otherwise,
                     HfGate gate) {
  c.hidden_act = f.text(key, std::move(otherwise));
  constexpr std::array<std::pair<std::string_view, HfActivation>, 8> known{{
      {"gelu", HfActivation::gelu},
      {"gelu_python", HfActivation::gelu},
      {"gelu_new", HfActivation::gelu_tanh},
      {"gelu_fast", HfActivation::gelu_tanh},
      {"gelu_pytorch_tanh", HfActivation::gelu_tanh},
      {"silu", HfActivation::silu},
      {"swish", HfActivation::silu},
      {"relu", HfActivation::relu},
  }};
  for (const auto& [name, activation] : known) {
    const bool suits = gate == HfGate::gelu
                           ? activation == HfActivation::gelu_tanh
                           : (activation == HfActivation::silu) == (gate == HfGate::silu);
    if (name != c.hidden_act || !suits) continue;
    c.activation = activation;
    return;
  }
  throw f.refusal(key, "is '{}', which Snug does not support for {}", c.hidden_act, c.model_type)
      .hint(gate == HfGate::silu   ? "supported: silu"
            : gate == HfGate::gelu ? "supported: gelu_pytorch_tanh"
                                   : "supported: gelu, gelu_new, gelu_pytorch_tanh, relu");
}

void settle_heads(const JsonFields& f, HfConfig& c, std::string_view heads_key, bool any_head_dim) {
  const int64_t heads = c.num_attention_heads;
  if (c.hidden_size % heads != 0 && !(any_head_dim && c.head_dim > 0)) {
    throw f.refusal(heads_key, "is {} and does not divide the width of {}", heads, c.hidden_size);
  }
  if (c.head_dim == 0) c.head_dim = c.hidden_size / heads;
  if (heads % c.num_key_value_heads != 0) {
    throw f.refusal("num_key_value_heads", "is {} and does not divide the {} attention heads",
                    c.num_key_value_heads, heads);
  }
  if (c.rotary && c.head_dim % 2 != 0) {
    throw f.refusal("head_dim", "is {}; rotary positions need an even one", c.head_dim);
  }
  if (heads * c.head_dim > kMaxAttentionWidth) {
    throw f.refusal(heads_key, "is {} with heads of {}: more than the {} columns that Snug takes",
                    heads, c.head_dim, format_exact(kMaxAttentionWidth));
  }
}

std::optional<int64_t> read_padding(const JsonFields& f, const HfConfig& c,
                                    std::optional<int64_t> otherwise) {
  if (!f.present("pad_token_id") && otherwise && *otherwise >= c.vocab_size) {
    throw f.refusal("pad_token_id", "is missing; {} means {} then, which is not one of the {} rows",
                    c.model_type, *otherwise, c.vocab_size);
  }
  return f.nullable_index("pad_token_id", otherwise, c.vocab_size);
}

void write_vocabulary(const HfConfig& c, OrderedJson& json) {
  json["vocab_size"] = c.vocab_size;
  json["initializer_range"] = c.initializer_range;
  json["tie_word_embeddings"] = c.tie_word_embeddings;
}

void write_sizes(const HfConfig& c, OrderedJson& json, const char* activation_key) {
  write_vocabulary(c, json);
  json["hidden_size"] = c.hidden_size;
  json["intermediate_size"] = c.intermediate_size;
  json["num_hidden_layers"] = c.num_hidden_layers;
  json["num_attention_heads"] = c.num_attention_heads;
  json["max_position_embeddings"] = c.max_position_embeddings;
  json[activation_key] = c.hidden_act;
}

parts::Block common_block(const HfConfig& hf) {
  return {.attention = {.H = hf.num_attention_heads,
                        .K = hf.num_key_value_heads,
                        .D = hf.head_dim,
                        .qkv_bias = hf.qkv_bias,
                        .out_bias = hf.attention_output_bias,
                        .dropout = hf.attention_dropout},
          .mlp = {.F = hf.intermediate_size,
                  .activation = activation_of(hf.activation),
                  .bias = hf.mlp_bias},
          .norm = {.eps = hf.norm_eps},
          .residual_dropout = hf.residual_dropout,
          .init_std = hf.initializer_range,
          .residual_init_std = hf.initializer_range};
}

ModelParts common_parts(const HfConfig& hf, const parts::Block& block) {
  parts::Stack stack{.L = hf.num_hidden_layers, .C = hf.hidden_size, .norm = block.norm};
  for (size_t i = 0; i < std::max<size_t>(1, hf.window_layers.size()); ++i) {
    stack.blocks.push_back(block);
    if (hf.has_window(static_cast<int64_t>(i)))
      stack.blocks.back().attention.window = *hf.sliding_window;
  }
  return {.family = hf.model_type,
          .max_positions = hf.max_position_embeddings,
          .embedding = {.V = hf.vocab_size,
                        .C = hf.hidden_size,
                        .padding = hf.padding_token.value_or(-1),
                        .positions = hf.rotary ? 0 : hf.max_position_embeddings,
                        .init_std = hf.initializer_range,
                        .dropout = hf.embedding_dropout,
                        .norm = block.norm},
          .stacks = {std::move(stack)},
          .head = {.tied = hf.tie_word_embeddings, .init_std = hf.initializer_range}};
}

}  // namespace snug

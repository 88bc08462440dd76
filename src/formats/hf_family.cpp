#include "formats/hf_family.h"

#include <array>

#include "base/units.h"

namespace snug {

void must_be(const HfFields& f, std::string_view key, bool supported) {
  if (f.flag(key, supported) != supported) {
    throw f.refusal(key, "is {}, which Snug does not support", !supported);
  }
}

void read_activation(const HfFields& f, HfConfig& c, std::string_view key, std::string otherwise,
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

std::optional<int64_t> read_padding(const HfFields& f, const HfConfig& c,
                                    std::optional<int64_t> otherwise) {
  if (!f.present("pad_token_id") && otherwise && *otherwise >= c.vocab_size) {
    throw f.refusal("pad_token_id", "is missing; {} means {} then, which is not one of the {} rows",
                    c.model_type, *otherwise, c.vocab_size);
  }
  return f.nullable_index("pad_token_id", otherwise, c.vocab_size);
}

}  // namespace snug

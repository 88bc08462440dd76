#include "models/model_config.h"

#include <algorithm>

namespace snug {
namespace {

bool like_llama(const parts::Block& b) {
  const parts::Attention& a = b.attention;
  return a.causal && a.rope && a.window == 0 && a.qk_norm == parts::Attention::QkNorm::none &&
         b.norm.kind == parts::Norm::Kind::rms_norm &&
         b.norm_place == parts::Block::NormPlace::before &&
         b.mlp.activation == parts::Activation::swiglu;
}

}  // namespace

ModelConfig config_of(const ModelParts& m, std::string name) {
  const parts::Block& first = m.stacks.at(0).block(0);
  ModelConfig c{.name = std::move(name),
                .family = m.family,
                .C = m.embedding.C,
                .H = first.attention.H,
                .K = first.attention.K,
                .D = first.attention.D,
                .F = first.mlp.F,
                .V = m.embedding.V,
                .max_positions = m.max_positions,
                .tied = m.head.tied,
                .like_llama = true,
                .embedding_dropout = m.embedding.dropout,
                .attention_dropout = first.attention.dropout,
                .residual_dropout = first.residual_dropout};
  for (const parts::Stack& stack : m.stacks) {
    c.L += stack.L;
    for (const parts::Block& block : stack.blocks) {
      c.causal = c.causal && block.attention.causal;
      c.like_llama = c.like_llama && like_llama(block);
    }
  }
  return c;
}

}  // namespace snug

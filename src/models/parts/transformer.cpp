#include "models/parts/transformer.h"

#include <numeric>

#include "models/parts/emitter.h"
#include "ops/attention/attention.h"
#include "ops/attention/cached_attention.h"
#include "ops/basic/add.h"
#include "ops/embedding/embedding.h"
#include "ops/linear/linear.h"
#include "ops/loss/cross_entropy.h"
#include "ops/loss/linear_cross_entropy.h"
#include "ops/rotary/rope.h"

namespace snug {
namespace {

// The residual stream: a sum that a matmul or an op made, or both addends, for the next norm to add.
struct Stream {
  ValueId x, delta;
};

// Layer `i` of its stack.
struct Layer {
  const parts::Stack& stack;
  const parts::Block& block;
  int64_t i = 0;

  std::string name() const { return fmt::format("{}.{}", stack.name, i); }
  // "model.layers.3.mlp.up_proj"
  std::string tensor(std::string_view name) const {
    return fmt::format("{}.{}.{}", stack.tensors, i, name);
  }
  // Tensors `names` with `sizes` outputs each; a single name takes them all.
  LinearLayer linear(const std::vector<std::string>& names, const std::vector<int64_t>& sizes,
                     bool bias) const {
    LinearLayer out{.bias = bias, .init_std = block.init_std, .in_out = block.weight_in_out};
    if (names.size() == sizes.size()) {
      for (size_t k = 0; k < names.size(); ++k) out.parts.push_back({tensor(names[k]), sizes[k]});
    } else {
      out.parts.push_back({tensor(names.at(0)), std::reduce(sizes.begin(), sizes.end())});
    }
    return out;
  }
};

class Transformer {
 public:
  Transformer(const ModelParts& m, const BuildOptions& o, Module& module, std::string_view program,
              bool training)
      : m_(m), o_(o), e_(module, program), training_(training) {}

  // Of a program that continues from cached keys and values.
  Transformer(const ModelParts& m, const BuildOptions& o, Module& module, std::string_view program,
              int64_t cached_positions)
      : m_(m), o_(o), e_(module, program), training_(false), cached_positions_(cached_positions) {}

  ValueId build_cached(bool logits) {
    const Type row{Dtype::i32, {o_.batch, o_.seq}};
    const std::string program = e_.builder().program().name;
    const ValueId tokens = e_.input(program + ".tokens", row);
    starts_ = e_.input(program + ".starts", row);
    const ValueId features = stacks(embed(tokens));
    if (!logits) return {};
    return ops::linear(e_.builder(), "logits", {.x = features, .weight = head()});
  }

  Forward build() {
    const std::vector<Input> inputs = transformer_inputs(o_.packed);
    const Input::Sizes sizes{.B = o_.batch, .T = o_.seq};
    const ValueId tokens = e_.input(find_input(inputs, Input::Source::tokens), sizes);
    const ValueId targets = e_.input(find_input(inputs, Input::Source::targets), sizes);
    starts_ = e_.input(find_input(inputs, Input::Source::starts), sizes);
    const ValueId features = stacks(embed(tokens));
    return loss(m_.head.transform ? transform(*m_.head.transform, features) : features, targets);
  }

 private:
  double rate(double of_the_model) const {
    return training_ ? o_.dropout.value_or(of_the_model) : 0;
  }

  // [B,T] -> [B,T,C]
  ValueId embed(ValueId tokens) {
    const parts::Embedding& m = m_.embedding;
    const Init init{Init::Kind::normal, m.init_std};
    table_ =
        e_.param("embed.weight", {m.V, m.C}, Role::embedding, init, m.tokens_tensor + ".weight");
    ops::Embedding p{.tokens = tokens, .table = table_, .scale = m.scale, .padding = m.padding};
    if (m.positions > 0) {
      p.positions = e_.param("positions.weight", {m.first_position + m.positions, m.C},
                             Role::position, init, m.positions_tensor + ".weight");
      p.first_position = m.first_position;
      p.starts = starts_;
    }
    if (m.types > 0) {
      p.types = e_.param("types.weight", {m.types, m.C}, Role::embedding, init,
                         m.types_tensor + ".weight");
    }
    ValueId x = ops::embedding(e_.builder(), "embed", p);
    if (!m.norm_tensor.empty()) x = e_.norm("embed.norm", x, m.norm, m.norm_tensor);
    return e_.dropout("embed.dropout", x, rate(m.dropout));
  }

  // Layers are numbered through the stacks.
  ValueId stacks(ValueId x) {
    int32_t layer = 0;
    for (const parts::Stack& stack : m_.stacks) {
      Stream s{x, {}};
      for (int64_t i = 0; i < stack.L; ++i) {
        const Layer l{stack, stack.block(i), i};
        const auto scope = e_.builder().layer(layer++, l.name());
        s = block(l, s);
      }
      x = stack.norm_tensor.empty()
              ? whole(s, stack.name + ".add")
              : e_.residual_norm("norm", s.x, s.delta, stack.norm, stack.norm_tensor).y;
    }
    return x;
  }

  Stream block(const Layer& l, Stream s) {
    using enum parts::Block::NormPlace;
    switch (l.block.norm_place) {
      case before:
      case around_part:
        return pre_norm_block(l, s);
      case after_sum:
        return post_norm_block(l, whole(s));
      case after_part:
        break;
    }
    return part_norm_block(l, whole(s));
  }

  ValueId whole(Stream s, std::string_view name = "stream.add") {
    return s.delta.valid() ? ops::add(e_.builder(), name, s.x, s.delta) : s.x;
  }

  Stream pre_norm_block(const Layer& l, Stream s) {
    const parts::Block& b = l.block;
    const auto a =
        e_.residual_norm("attn.norm", s.x, s.delta, b.norm, l.tensor(b.attention_norm_tensor));
    if (b.parallel) return parallel_parts(l, a);
    s = joined(l, a.h, attention_part(l, a.y, into_matmul(l, a.h)));
    const auto m = e_.residual_norm("mlp.norm", s.x, s.delta, b.norm, l.tensor(b.mlp_norm_tensor));
    return joined(l, m.h, mlp_part(l, m.y, into_matmul(l, m.h)));
  }

  // Parts read the stream itself; the sum is made in the layer, so that one value leaves it.
  Stream part_norm_block(const Layer& l, ValueId x) {
    x = ops::add(e_.builder(), "attn.add", x, attention_part(l, x, {}));
    return {ops::add(e_.builder(), "mlp.add", x, mlp_part(l, x, {})), {}};
  }

  Stream post_norm_block(const Layer& l, ValueId x) {
    const parts::Block& b = l.block;
    const Stream a = joined(l, x, attention(l, x, into_matmul(l, x)));
    x = e_.residual_norm("attn.norm", a.x, a.delta, b.norm, l.tensor(b.attention_norm_tensor)).y;
    const Stream m = joined(l, x, mlp(l, x, into_matmul(l, x)));
    return {e_.residual_norm("mlp.norm", m.x, m.delta, b.norm, l.tensor(b.mlp_norm_tensor)).y, {}};
  }

  // What a part adds to the stream, normed where the block does that.
  ValueId attention_part(const Layer& l, ValueId x, ValueId residual) {
    const ValueId delta = attention(l, x, residual);
    if (!l.block.norms_parts()) return delta;
    return e_.norm("attn.part_norm", delta, l.block.norm,
                   l.tensor(l.block.attention_part_norm_tensor));
  }
  ValueId mlp_part(const Layer& l, ValueId x, ValueId residual) {
    const ValueId delta = mlp(l, x, residual);
    if (!l.block.norms_parts()) return delta;
    return e_.norm("mlp.part_norm", delta, l.block.norm, l.tensor(l.block.mlp_part_norm_tensor));
  }

  // The residual that the last matmul of a part is to add; none where another op comes between.
  ValueId into_matmul(const Layer& l, ValueId h) const {
    const bool between = l.block.norms_parts() || rate(l.block.residual_dropout) != 0;
    return o_.residual_in_matmul && !between ? h : ValueId{};
  }
  // The stream after a part: the sum that its matmul made, or both addends.
  Stream joined(const Layer& l, ValueId h, ValueId result) const {
    return into_matmul(l, h).valid() ? Stream{result, {}} : Stream{h, result};
  }

  // Both parts read the stream as it entered the layer.
  Stream parallel_parts(const Layer& l, const ops::ResidualNorm& a) {
    const std::string& norm = l.block.mlp_norm_tensor;
    const ValueId sum = into_matmul(l, a.h);
    const ValueId first = attention_part(l, a.y, sum);
    const ValueId x = norm.empty() ? a.y : e_.norm("mlp.norm", a.h, l.block.norm, l.tensor(norm));
    const ValueId second = mlp_part(l, x, sum.valid() ? first : ValueId{});
    if (sum.valid()) return {second, {}};
    return {a.h, ops::add(e_.builder(), "parts.add", first, second)};
  }

  // [B,T,C] -> [B,T,C]
  ValueId attention(const Layer& l, ValueId x, ValueId residual) {
    const parts::Attention& a = l.block.attention;
    LinearLayer packed = l.linear(a.qkv_tensors, {a.H * a.D, a.K * a.D, a.K * a.D}, a.qkv_bias);
    packed.heads = a.H + 2 * a.K;
    packed.value_heads = a.K;
    packed.by_head = a.qkv_by_head ? a.H : 0;
    ValueId qkv = e_.linear("attn.qkv", x, packed);
    if (a.qk_norm != parts::Attention::QkNorm::none) {
      qkv = e_.qk_norm("attn.qk_norm", qkv, a, l.block.norm, l.tensor(a.q_norm_tensor),
                       l.tensor(a.k_norm_tensor));
    }
    if (a.rope) {
      qkv = ops::rope(e_.builder(), "attn.rope",
                      {.qkv = qkv,
                       .heads = a.H,
                       .kv_heads = a.K,
                       .head_dim = a.D,
                       .rotary_dim = a.rope->dim,
                       .theta = a.rope->theta,
                       .scaling = a.rope->scaling,
                       .starts = starts_});
    }
    const ValueId mixed = cached_positions_ > 0 ? cached_mix(a, qkv) : mix(a, qkv);
    LinearLayer out = l.linear({a.out_tensor}, {l.stack.C}, a.out_bias);
    out.init_std = l.block.residual_init_std;
    return e_.dropout("attn.dropout", e_.linear("attn.out", mixed, out, residual),
                      rate(l.block.residual_dropout));
  }

  // [B,T,(H+2K)*D] -> [B,T,H*D]
  ValueId mix(const parts::Attention& a, ValueId qkv) {
    const double drop = rate(a.dropout);
    return ops::attention(e_.builder(), "attn.mix",
                          {.qkv = qkv,
                           .heads = a.H,
                           .kv_heads = a.K,
                           .head_dim = a.D,
                           .causal = a.causal,
                           .window = o_.seq > a.window ? a.window : 0,
                           .scale = a.score_scale,
                           .kind = o_.attention,
                           .chunk = o_.attention_chunk,
                           .dropout = drop,
                           .random = drop > 0 ? e_.random() : ops::Random{},
                           .starts = starts_});
  }
  // The same of new tokens after those in the caches.
  ValueId cached_mix(const parts::Attention& a, ValueId qkv) {
    const Shape cache{o_.batch, cached_positions_, a.K, a.D};
    return ops::cached_attention(e_.builder(), "attn.mix",
                                 {.qkv = qkv,
                                  .keys = e_.cache("attn.keys", cache),
                                  .values = e_.cache("attn.values", cache),
                                  .starts = starts_,
                                  .heads = a.H,
                                  .kv_heads = a.K,
                                  .head_dim = a.D,
                                  .window = cached_positions_ > a.window ? a.window : 0,
                                  .scale = a.score_scale});
  }

  // [B,T,C] -> [B,T,C]
  ValueId mlp(const Layer& l, ValueId x, ValueId residual) {
    const parts::Mlp& m = l.block.mlp;
    const std::vector<int64_t> sizes(m.gated() ? 2 : 1, m.F);
    const ValueId inner =
        e_.linear(m.gated() ? "mlp.gate_up" : "mlp.up", x, l.linear(m.in_tensors, sizes, m.bias));
    LinearLayer down = l.linear({m.out_tensor}, {l.stack.C}, m.bias);
    down.init_std = l.block.residual_init_std;
    const ValueId delta =
        e_.linear("mlp.down", e_.activation("mlp.act", inner, m.activation), down, residual);
    return e_.dropout("mlp.dropout", delta, rate(l.block.residual_dropout));
  }

  ValueId transform(const parts::Head::Transform& t, ValueId x) {
    const LinearLayer dense{.parts = {{t.dense_tensor, e_.builder().shape(x).back()}},
                            .bias = true,
                            .init_std = m_.head.init_std};
    x = e_.activation("head.act", e_.linear("head.dense", x, dense), t.activation);
    head_bias_ = e_.param("head.bias", {m_.embedding.V}, Role::bias, {}, t.bias_tensor + ".bias");
    return e_.norm("head.norm", x, t.norm, t.norm_tensor);
  }

  ValueId head() {  // [V,C]
    if (m_.head.tied) return table_;
    return e_.param("head.weight", {m_.embedding.V, m_.stacks.back().C}, Role::head,
                    {Init::Kind::normal, m_.head.init_std}, m_.head.tensor + ".weight");
  }

  Forward loss(ValueId x, ValueId targets) {
    Builder& b = e_.builder();
    const ValueId head = this->head();
    if (o_.chunked_loss || o_.fused_loss) {
      const int64_t chunk = o_.chunked_loss ? o_.loss_chunk : o_.batch * o_.seq;
      return {
          .loss = ops::linear_cross_entropy(
              b, "loss",
              {.x = x, .weight = head, .targets = targets, .bias = head_bias_, .chunk = chunk})};
    }
    const ValueId logits = ops::linear(b, "logits", {.x = x, .weight = head, .bias = head_bias_});
    return {.loss = ops::cross_entropy(b, "loss", {.logits = logits, .targets = targets}),
            .logits = logits};
  }

  const ModelParts& m_;
  const BuildOptions& o_;
  Emitter e_;
  bool training_;
  int64_t cached_positions_ = 0;  // > 0: keys and values are cached
  ValueId starts_;                // [B,T], where rows hold several samples or go on with one
  ValueId table_;                 // [V,C]
  ValueId head_bias_;             // [V] or none
};

}  // namespace

std::vector<Input> transformer_inputs(bool packed) {
  using enum Input::Size;
  std::vector<Input> inputs{{"tokens", Input::Source::tokens, Dtype::i32, {B, T}},
                            {"targets", Input::Source::targets, Dtype::i32, {B, T}}};
  if (packed) inputs.push_back({"starts", Input::Source::starts, Dtype::i32, {B, T}});
  return inputs;
}

Forward build_transformer(const ModelParts& model, const BuildOptions& options, Module& module,
                          std::string_view program, bool training) {
  return Transformer(model, options, module, program, training).build();
}

ValueId build_cached_transformer(const ModelParts& model, const CachedOptions& options,
                                 Module& module, std::string_view program) {
  const BuildOptions build{
      .batch = 1, .seq = options.tokens, .residual_in_matmul = options.residual_in_matmul};
  return Transformer(model, build, module, program, options.positions).build_cached(options.logits);
}

}  // namespace snug

#include "models/transformer.h"

#include <numeric>

#include "models/emitter.h"
#include "ops/attention/attention.h"
#include "ops/attention/cached_attention.h"
#include "ops/attention/rope.h"
#include "ops/basic/add.h"
#include "ops/embedding/embedding.h"
#include "ops/linear/linear.h"
#include "ops/loss/cross_entropy.h"
#include "ops/loss/linear_cross_entropy.h"

namespace snug {
namespace {

class Transformer {
 public:
  Transformer(const ModelConfig& c, const BuildOptions& o, Module& module, std::string_view program,
              bool training)
      : c_(c), o_(o), e_(module, program), training_(training) {}

  // Of a program that goes on behind cached keys and values.
  Transformer(const ModelConfig& c, const BuildOptions& o, Module& module, std::string_view program,
              int64_t cached_positions)
      : c_(c), o_(o), e_(module, program), training_(false), cached_positions_(cached_positions) {}

  ValueId build_cached(bool logits) {
    const Type row{Dtype::i32, {o_.batch, o_.seq}};
    const std::string program = e_.builder().program().name;
    const ValueId tokens = e_.input(program + ".tokens", row);
    starts_ = e_.input(program + ".starts", row);
    const ValueId features = layers(embed(tokens));
    if (!logits) return {};
    return ops::linear(e_.builder(), "logits", {.x = features, .weight = head()});
  }

  Forward build() {
    const ValueId tokens = e_.input("tokens", {Dtype::i32, {o_.batch, o_.seq}});
    const ValueId targets = e_.input("targets", {Dtype::i32, {o_.batch, o_.seq}});
    if (o_.packed) starts_ = e_.input("starts", {Dtype::i32, {o_.batch, o_.seq}});
    const ValueId embedded = embed(tokens);
    const ValueId features = layers(embedded);
    return loss(c_.masked_head ? masked_head(features) : features, targets);
  }

 private:
  double rate(double of_the_model) const {
    return training_ ? o_.dropout.value_or(of_the_model) : 0;
  }

  Init normal() const { return {Init::Kind::normal, c_.init_std}; }

  // [B,T] -> [B,T,C]
  ValueId embed(ValueId tokens) {
    const TensorNames& n = c_.names;
    table_ =
        e_.param("embed.weight", {c_.V, c_.C}, Role::embedding, normal(), n.embedding + ".weight");
    ops::Embedding p{
        .tokens = tokens, .table = table_, .scale = c_.embedding_scale, .padding = c_.padding};
    if (c_.positions == Positions::learned) {
      const int64_t rows = c_.first_position + c_.max_positions;
      p.positions = e_.param("positions.weight", {rows, c_.C}, Role::position, normal(),
                             n.positions + ".weight");
      p.first_position = c_.first_position;
      p.starts = starts_;
    }
    if (c_.types > 0) {
      p.types = e_.param("types.weight", {c_.types, c_.C}, Role::embedding, normal(),
                         n.types + ".weight");
    }
    ValueId x = ops::embedding(e_.builder(), "embed", p);
    if (c_.norm_place == NormPlace::after_sum) x = e_.norm("embed.norm", x, c_, n.embedding_norm);
    return e_.dropout("embed.dropout", x, rate(c_.embedding_dropout));
  }

  ValueId layers(ValueId x) {
    switch (c_.norm_place) {
      case NormPlace::before:
      case NormPlace::around_part:
        return pre_norm_layers(x);
      case NormPlace::after_sum:
        return post_norm_layers(x);
      case NormPlace::after_part:
        break;
    }
    return part_norm_layers(x);
  }

  // x is the residual stream and delta what the last part wants added to it: the next norm adds it.
  ValueId pre_norm_layers(ValueId x) {
    const TensorNames& n = c_.names;
    Stream s{x, {}};
    for (int64_t i = 0; i < c_.L; ++i) {
      const auto scope = enter(i);
      const auto a = e_.residual_norm("attn.norm", s.x, s.delta, c_, tensor(i, n.attention_norm));
      if (c_.parallel) {
        s = parallel_parts(i, a);
        continue;
      }
      s = joined(a.h, attention_part(i, a.y, into_product(a.h)));
      const auto m = e_.residual_norm("mlp.norm", s.x, s.delta, c_, tensor(i, n.mlp_norm));
      s = joined(m.h, mlp_part(i, m.y, into_product(m.h)));
    }
    return e_.residual_norm("norm", s.x, s.delta, c_, n.final_norm).y;
  }

  // Parts read the stream itself; the sum is made in the layer, so that one value leaves it.
  ValueId part_norm_layers(ValueId x) {
    for (int64_t i = 0; i < c_.L; ++i) {
      const auto scope = enter(i);
      x = ops::add(e_.builder(), "attn.add", x, attention_part(i, x, {}));
      x = ops::add(e_.builder(), "mlp.add", x, mlp_part(i, x, {}));
    }
    return e_.norm("norm", x, c_, c_.names.final_norm);
  }

  // What a part adds to the stream, normed where the family does that.
  ValueId attention_part(int64_t i, ValueId x, ValueId residual) {
    const ValueId delta = attention(i, x, residual);
    if (!c_.norms_parts()) return delta;
    return e_.norm("attn.part_norm", delta, c_, tensor(i, c_.names.attention_part_norm));
  }
  ValueId mlp_part(int64_t i, ValueId x, ValueId residual) {
    const ValueId delta = mlp(i, x, residual);
    if (!c_.norms_parts()) return delta;
    return e_.norm("mlp.part_norm", delta, c_, tensor(i, c_.names.mlp_part_norm));
  }

  ValueId post_norm_layers(ValueId x) {
    const TensorNames& n = c_.names;
    for (int64_t i = 0; i < c_.L; ++i) {
      const auto scope = enter(i);
      const Stream a = joined(x, attention(i, x, into_product(x)));
      x = e_.residual_norm("attn.norm", a.x, a.delta, c_, tensor(i, n.attention_norm)).y;
      const Stream m = joined(x, mlp(i, x, into_product(x)));
      x = e_.residual_norm("mlp.norm", m.x, m.delta, c_, tensor(i, n.mlp_norm)).y;
    }
    return x;
  }

  // The residual that the last matmul of a part is to add; none where something is between.
  ValueId into_product(ValueId h) const {
    const bool between = c_.norms_parts() || rate(c_.residual_dropout) != 0;
    return o_.residual_in_matmul && !between ? h : ValueId{};
  }
  // The residual stream after a part: the sum that its matmul made, or both addends.
  struct Stream {
    ValueId x, delta;
  };
  Stream joined(ValueId h, ValueId result) const {
    return into_product(h).valid() ? Stream{result, {}} : Stream{h, result};
  }

  // Both parts read the stream as it entered the layer.
  Stream parallel_parts(int64_t i, const ops::ResidualNorm& a) {
    const std::string& norm = c_.names.mlp_norm;
    const ValueId sum = into_product(a.h);
    const ValueId first = attention_part(i, a.y, sum);
    const ValueId x = norm.empty() ? a.y : e_.norm("mlp.norm", a.h, c_, tensor(i, norm));
    const ValueId second = mlp_part(i, x, sum.valid() ? first : ValueId{});
    if (sum.valid()) return {second, {}};
    return {a.h, ops::add(e_.builder(), "parts.add", first, second)};
  }

  Builder::LayerScope enter(int64_t i) {
    return e_.builder().layer(static_cast<int32_t>(i), fmt::format("{}.{}", c_.layer_name, i));
  }
  std::string tensor(int64_t i, std::string_view name) const {
    return fmt::format("{}.{}.{}", c_.names.layer, i, name);
  }

  // Checkpoint tensors `names` of layer i with `sizes` outputs each; a single name takes them all.
  LinearLayer layer(int64_t i, const std::vector<std::string>& names,
                    const std::vector<int64_t>& sizes, bool bias) const {
    LinearLayer out{.bias = bias, .init_std = c_.init_std, .in_out = c_.weight_in_out};
    if (names.size() == sizes.size()) {
      for (size_t k = 0; k < names.size(); ++k) {
        out.parts.push_back({tensor(i, names[k]), sizes[k]});
      }
    } else {
      out.parts.push_back({tensor(i, names.at(0)), std::reduce(sizes.begin(), sizes.end())});
    }
    return out;
  }

  // [B,T,C] -> [B,T,C]
  ValueId attention(int64_t i, ValueId x, ValueId residual) {
    const int64_t H = c_.H, K = c_.K, D = c_.D;
    LinearLayer packed = layer(i, c_.names.qkv, {H * D, K * D, K * D}, c_.qkv_bias);
    packed.heads = H + 2 * K;
    packed.value_heads = K;
    packed.by_head = c_.qkv_by_head ? H : 0;
    ValueId qkv = e_.linear("attn.qkv", x, packed);
    if (c_.qk_norm != QkNormKind::none) {
      qkv = e_.qk_norm("attn.qk_norm", qkv, c_, tensor(i, c_.names.q_norm),
                       tensor(i, c_.names.k_norm));
    }
    const bool windowed = c_.has_window(i);
    if (c_.positions == Positions::rope) {
      const bool local = windowed && c_.local_theta > 0;
      qkv = ops::rope(e_.builder(), "attn.rope",
                      {.qkv = qkv,
                       .heads = H,
                       .kv_heads = K,
                       .head_dim = D,
                       .rotary_dim = c_.rotary_dim,
                       .theta = local ? c_.local_theta : c_.rope_theta,
                       .scaling = local ? ops::RopeScaling{} : c_.rope_scaling,
                       .starts = starts_});
    }
    const ValueId mixed = cached_positions_ > 0 ? cached_mix(i, qkv) : mix(i, qkv);
    LinearLayer out = layer(i, {c_.names.attention_out}, {c_.C}, c_.attention_out_bias);
    out.init_std = c_.residual_init_std;
    return e_.dropout("attn.dropout", e_.linear("attn.out", mixed, out, residual),
                      rate(c_.residual_dropout));
  }

  // [B,T,(H+2K)*D] -> [B,T,H*D]
  ValueId mix(int64_t i, ValueId qkv) {
    const double drop = rate(c_.attention_dropout);
    return ops::attention(e_.builder(), "attn.mix",
                          {.qkv = qkv,
                           .heads = c_.H,
                           .kv_heads = c_.K,
                           .head_dim = c_.D,
                           .causal = c_.causal,
                           .window = c_.has_window(i) && o_.seq > c_.window ? c_.window : 0,
                           .scale = c_.score_scale,
                           .kind = o_.attention,
                           .chunk = o_.attention_chunk,
                           .dropout = drop,
                           .random = drop > 0 ? e_.random() : ops::Random{},
                           .starts = starts_});
  }
  // The same of new tokens behind those in the caches.
  ValueId cached_mix(int64_t i, ValueId qkv) {
    const Shape cache{o_.batch, cached_positions_, c_.K, c_.D};
    return ops::cached_attention(
        e_.builder(), "attn.mix",
        {.qkv = qkv,
         .keys = e_.cache("attn.keys", cache),
         .values = e_.cache("attn.values", cache),
         .starts = starts_,
         .heads = c_.H,
         .kv_heads = c_.K,
         .head_dim = c_.D,
         .window = c_.has_window(i) && cached_positions_ > c_.window ? c_.window : 0,
         .scale = c_.score_scale});
  }

  // [B,T,C] -> [B,T,C]
  ValueId mlp(int64_t i, ValueId x, ValueId residual) {
    const std::vector<int64_t> sizes(c_.gated() ? 2 : 1, c_.F);
    const ValueId inner = e_.linear(c_.gated() ? "mlp.gate_up" : "mlp.up", x,
                                    layer(i, c_.names.mlp_in, sizes, c_.mlp_bias));
    LinearLayer down = layer(i, {c_.names.mlp_out}, {c_.C}, c_.mlp_bias);
    down.init_std = c_.residual_init_std;
    const ValueId delta =
        e_.linear("mlp.down", e_.activation("mlp.act", inner, c_.activation), down, residual);
    return e_.dropout("mlp.dropout", delta, rate(c_.residual_dropout));
  }

  ValueId masked_head(ValueId x) {
    const LinearLayer dense{
        .parts = {{c_.names.transform, c_.C}}, .bias = true, .init_std = c_.init_std};
    x = e_.activation("head.act", e_.linear("head.dense", x, dense), c_.activation);
    head_bias_ = e_.param("head.bias", {c_.V}, Role::bias, {}, c_.names.head_bias + ".bias");
    return e_.norm("head.norm", x, c_, c_.names.transform_norm);
  }

  ValueId head() {  // [V,C]
    if (c_.tied) return table_;
    return e_.param("head.weight", {c_.V, c_.C}, Role::head, normal(), c_.names.head + ".weight");
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

  const ModelConfig& c_;
  const BuildOptions& o_;
  Emitter e_;
  bool training_;
  int64_t cached_positions_ = 0;  // > 0: attention is behind cached keys and values
  ValueId starts_;                // [B,T], where rows hold several samples or go on with one
  ValueId table_;                 // [V,C]
  ValueId head_bias_;             // [V] or none
};

}  // namespace

Forward build_transformer(const ModelConfig& config, const BuildOptions& options, Module& module,
                          std::string_view program, bool training) {
  return Transformer(config, options, module, program, training).build();
}

ValueId build_cached_transformer(const ModelConfig& config, const CachedOptions& options,
                                 Module& module, std::string_view program) {
  const BuildOptions build{
      .batch = 1, .seq = options.tokens, .residual_in_matmul = options.residual_in_matmul};
  return Transformer(config, build, module, program, options.positions)
      .build_cached(options.logits);
}

}  // namespace snug

#include "ops/attention/packed_heads.h"

#include <cmath>

#include "base/units.h"

namespace snug::ops {

PackedHeads packed_heads(const Shape& qkv, const Attrs& attrs) {
  return {qkv[0], qkv[1], attrs.i("heads"), attrs.i("kv_heads"), attrs.i("head_dim")};
}

SeenKeys seen_keys(const Attrs& attrs) {
  return {.causal = attrs.b("causal"), .window = attrs.i("window", 0)};
}

SeenKeys seen_keys(const KernelArgs& a, size_t random) {
  SeenKeys keys = seen_keys(a.attrs);
  keys.starts = a.in<int32_t>(starts_port(random));
  return keys;
}

float score_scale(const PackedHeads& p, const Attrs& attrs) {
  if (attrs.has("scale")) return static_cast<float>(attrs.f("scale"));
  return 1 / std::sqrt(static_cast<float>(p.D));
}

PackedHeads checked_heads(const OpView& op) {
  op.require(op.shape(0).rank() == 3, "qkv {} is not [batch, tokens, width]", op.in(0).text());
  const PackedHeads p = packed_heads(op.shape(0), op.attrs);
  op.require(p.H > 0 && p.K > 0 && p.D > 0,
             "{} heads, {} kv heads of {} elements: all must be positive", p.H, p.K, p.D);
  op.require(p.H % p.K == 0, "{} heads do not share {} kv heads evenly", p.H, p.K);
  const int64_t heads = checked_add(p.H, checked_mul(2, p.K, "packed heads"), "packed heads");
  const int64_t width = checked_mul(heads, p.D, "packed qkv width");
  op.require(op.shape(0).back() == width,
             "qkv {} has width {}, but {} heads and 2 x {} kv heads of {} elements need {}",
             op.in(0).text(), op.shape(0).back(), p.H, p.K, p.D, width);
  return p;
}

}  // namespace snug::ops

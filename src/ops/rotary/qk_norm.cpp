#include "ops/rotary/qk_norm.h"

#include <cmath>

#include "base/units.h"
#include "kernels/float_kernels.h"
#include "ops/infer.h"
#include "ops/reference.h"
#include "ops/rotary/qk_norm_cpu.h"
#include "ops/rotary/qk_norm_cuda.h"

namespace snug::ops {
namespace {

enum In : size_t { kQkv, kQWeight, kKWeight, kRstd, kDy, kDqSum, kDkSum };

QkNormParts parts_of(const OpView& op) {
  return qk_norm_parts(op.shape(kQkv), op.shape(kQWeight), op.attrs);
}

QkNormParts checked(const OpView& op) {
  const PackedHeads p = checked_heads(op);
  const Dtype dtype = op.in(kQkv).dtype;
  const bool per_head =
      op.in(kQWeight) == Type{dtype, {p.D}} && op.in(kKWeight) == Type{dtype, {p.D}};
  const bool whole =
      op.in(kQWeight) == Type{dtype, {p.H * p.D}} && op.in(kKWeight) == Type{dtype, {p.K * p.D}};
  op.require(per_head || whole,
             "q_weight {} and k_weight {} norm neither a head of {} nor all of {}",
             op.in(kQWeight).text(), op.in(kKWeight).text(), p.D, op.in(kQkv).text());
  return parts_of(op);
}

Type statistic(const QkNormParts& parts) {
  return {Dtype::f32, {parts.p.B * parts.p.T, parts.count()}};
}

std::vector<Type> infer(const OpView& op) { return {op.in(kQkv), statistic(checked(op))}; }

std::vector<Type> infer_grad(const OpView& op) {
  require_type(op, kRstd, statistic(checked(op)));
  require_type(op, kDy, op.in(kQkv));
  const Dtype dtype = grad_dtype(op, op.in(kQWeight).dtype);
  const Type dq{dtype, op.shape(kQWeight)}, dk{dtype, op.shape(kKWeight)};
  require_sum(op, kDqSum, dq);
  require_sum(op, kDkSum, dk);
  return {op.in(kQkv), dq, dk};
}

void grad(GradContext& g) {
  const auto d =
      g.emit(qk_norm_grad_def, {g.in(kQkv), g.in(kQWeight), g.in(kKWeight), g.out(1), g.dout(0)},
             g.attrs());
  for (size_t i = 0; i < d.size(); ++i) g.set(i, d[i]);
}

Cost cost(const OpView& op, std::span<const Type>, Backend) {
  return {.flops = checked_mul(4, op.shape(kQkv).elements(), op.name)};
}

Cost cost_grad(const OpView& op, std::span<const Type>, Backend backend) {
  const QkNormParts parts = parts_of(op);
  const int64_t weights = op.shape(kQWeight).elements() + op.shape(kKWeight).elements();
  return {.flops = checked_mul(9, op.shape(kQkv).elements(), op.name),
          .workspace = checked_mul(backend == Backend::cuda ? qk_norm_grad_blocks(parts)
                                                            : qk_norm_grad_row_blocks(parts),
                                   weights * size_of(Dtype::f32), "qk_norm's scratch")};
}

// fn(row, part, its first element, its weight's port and first element)
template <typename Fn>
void for_each_part(const RefArgs& a, Fn&& fn) {
  const QkNormParts parts = qk_norm_parts(a.in(kQkv).shape(), a.in(kQWeight).shape(), a.attrs);
  for (int64_t row = 0; row < parts.p.B * parts.p.T; ++row) {
    for (int64_t g = 0; g < parts.count(); ++g) {
      fn(static_cast<size_t>(row * parts.count() + g),
         static_cast<size_t>(row * parts.p.width() + parts.start(g)),
         static_cast<size_t>(parts.width(g)), parts.is_key(g) ? kKWeight : kQWeight);
    }
  }
}

void reference(const RefArgs& a) {
  const double offset = a.attrs.f("offset", 0);
  const std::vector<double>& x = a.in(kQkv).v;
  a.out(0).v = x;
  for_each_part(a, [&](size_t part, size_t first, size_t width, size_t port) {
    double sum = 0;
    for (size_t c = 0; c < width; ++c) sum += x[first + c] * x[first + c];
    const double rstd = 1 / std::sqrt(sum / static_cast<double>(width) + a.attrs.f("eps"));
    for (size_t c = 0; c < width; ++c) {
      a.out(0).v[first + c] = x[first + c] * rstd * (a.in(port).v[c] + offset);
    }
    a.out(1).v[part] = rstd;
  });
}

void reference_grad(const RefArgs& a) {
  const double offset = a.attrs.f("offset", 0);
  const std::vector<double>&x = a.in(kQkv).v, &dy = a.in(kDy).v;
  a.out(0).v = dy;
  for_each_part(a, [&](size_t part, size_t first, size_t width, size_t port) {
    const std::vector<double>& weight = a.in(port).v;
    const double rstd = a.in(kRstd).v[part];
    double dot = 0;
    for (size_t c = 0, i = first; c < width; ++c, ++i) dot += dy[i] * (weight[c] + offset) * x[i];
    const double along_x = rstd * rstd * dot / static_cast<double>(width);
    for (size_t c = 0, i = first; c < width; ++c, ++i) {
      a.out(0).v[i] = rstd * (dy[i] * (weight[c] + offset) - x[i] * along_x);
      a.out(port).v[c] += dy[i] * x[i] * rstd;
    }
  });
  add_accumulators(qk_norm_grad_def, a);
}

Attrs attributes(const QkNorm& p) {
  Attrs attrs{
      {"heads", p.heads}, {"kv_heads", p.kv_heads}, {"head_dim", p.head_dim}, {"eps", p.eps}};
  if (p.offset != 0) attrs.set("offset", p.offset);
  return attrs;
}

std::vector<Sample> samples() {
  const auto sample = [](const char* name, int64_t B, int64_t T, const QkNorm& p, bool per_head) {
    const int64_t q = per_head ? p.head_dim : p.heads * p.head_dim;
    const int64_t k = per_head ? p.head_dim : p.kv_heads * p.head_dim;
    const int64_t width = (p.heads + 2 * p.kv_heads) * p.head_dim;
    return Sample{name,
                  {{{Dtype::f32, {B, T, width}}}, {{Dtype::f32, {q}}}, {{Dtype::f32, {k}}}},
                  attributes(p)};
  };
  const auto shape = [](int64_t heads, int64_t kv_heads, int64_t head_dim, double offset = 0) {
    return QkNorm{.qkv = {},
                  .q_weight = {},
                  .k_weight = {},
                  .heads = heads,
                  .kv_heads = kv_heads,
                  .head_dim = head_dim,
                  .offset = offset};
  };
  return {
      sample("one token", 1, 1, shape(2, 1, 4), true),
      sample("heads", 2, 33, shape(6, 2, 16), true),
      sample("odd heads", 1, 70, shape(3, 1, 7, 1), true),
      sample("wide heads", 1, 9, shape(2, 2, 264), true),
      sample("all heads", 2, 35, shape(6, 3, 8), false),
      sample("all heads, odd", 1, 70, shape(3, 1, 13, 1), false),
      sample("all heads, wide", 1, 5, shape(6, 2, 200), false),
  };
}

}  // namespace

const OpDef qk_norm_def{
    .kind = "qk_norm",
    .inputs = {"qkv", "q_weight", "k_weight"},
    .outputs = {"y", aux("rstd")},
    .infer = infer,
    .grad = grad,
    .cost = cost,
    .alias = {{.output = 0, .input = 0}},
    .splits = {{"batch", {0, Split::kWhole, Split::kWhole}, {0, 0}}},
    .exact = {kQkv},
    .features = Features::in_heads,
    .kernels = float_kernels(qk_norm_cpu, {.run = SNUG_CUDA_KERNEL(qk_norm_cuda)}),
    .reference = reference,
    .samples = samples,
};

const OpDef qk_norm_grad_def{
    .kind = "qk_norm_grad",
    .inputs = {"qkv", "q_weight", "k_weight", "rstd", "dy", optional("dq_sum"), optional("dk_sum")},
    .outputs = {"dqkv", "dq_weight", "dk_weight"},
    .infer = infer_grad,
    .cost = cost_grad,
    .alias = {{.output = 0, .input = kDy}},
    .accumulate = {{.output = 1, .input = kDqSum}, {.output = 2, .input = kDkSum}},
    .splits = {{"batch",
                {0, Split::kWhole, Split::kWhole, 0, 0, Split::kWhole, Split::kWhole},
                {0, Split::kPartial, Split::kPartial}}},
    .exact = {kQkv, kRstd},
    .kernels = float_kernels(qk_norm_grad_cpu, {.run = SNUG_CUDA_KERNEL(qk_norm_grad_cuda)}),
    .reference = reference_grad,
};

ValueId qk_norm(Builder& b, std::string_view name, const QkNorm& p) {
  return b.emit(qk_norm_def, name, {p.qkv, p.q_weight, p.k_weight}, attributes(p))[0];
}

}  // namespace snug::ops

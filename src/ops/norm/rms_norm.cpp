#include "ops/norm/rms_norm.h"

#include <cmath>

#include "ops/norm/rms_norm_cpu.h"

namespace snug::ops {
namespace {

std::vector<Type> infer(const OpView& op) {
  const Shape& x = op.shape(0);
  op.require(x.rank() >= 1 && op.shape(1) == Shape{x.back()}, "weight {} does not match the last axis of x {}", op.in(1).text(), op.in(0).text());
  return {op.in(0), {Dtype::f32, {x.rows()}}};
}

void grad(GradContext& g) {
  const auto d = g.emit(rms_norm_grad_def, {g.in(0), g.in(1), g.out(1), g.dout(0)});
  g.set(0, d[0]);
  g.set(1, d[1]);
}

Cost cost(const OpView& op, std::span<const Type>, Backend) { return {.flops = 4 * op.shape(0).elements()}; }

void reference(const RefArgs& a) {
  const int64_t C = a.in(0).shape().back();
  const int64_t rows = a.in(0).shape().rows();
  const double* x = a.in(0).v.data();
  for (int64_t r = 0; r < rows; ++r, x += C) {
    double sum = 0;
    for (int64_t c = 0; c < C; ++c) sum += x[c] * x[c];
    const double rstd = 1 / std::sqrt(sum / static_cast<double>(C) + a.attrs.f("eps"));
    for (int64_t c = 0; c < C; ++c) a.out(0).v[static_cast<size_t>(r * C + c)] = x[c] * rstd * a.in(1).v[static_cast<size_t>(c)];
    a.out(1).v[static_cast<size_t>(r)] = rstd;
  }
}

std::vector<Sample> samples() {
  auto sample = [](const char* name, Shape x) {
    return Sample{name, {{{Dtype::f32, x}}, {{Dtype::f32, {x.back()}}}}, {{"eps", 1e-6}}};
  };
  return {sample("one row", {1, 8}), sample("odd width", {3, 5, 37}), sample("many rows", {2, 70, 48})};
}

// --- backward -------------------------------------------------------------------------------------------------------------

enum GradIn : size_t { kX, kWeight, kRstd, kDy, kDxSum, kDweightSum };

std::vector<Type> infer_grad(const OpView& op) {
  op.require(op.in(kX) == op.in(kDy), "dy {} differs from x {}", op.in(kDy).text(), op.in(kX).text());
  return {op.in(kX), op.in(kWeight)};
}

Cost cost_grad(const OpView& op, std::span<const Type>, Backend) {
  return {.flops = 9 * op.shape(kX).elements(), .workspace = kWeightGradBlocks * op.shape(kX).back() * size_of(Dtype::f32)};
}

void reference_grad(const RefArgs& a) {
  const int64_t C = a.in(kX).shape().back();
  const int64_t rows = a.in(kX).shape().rows();
  for (int64_t r = 0; r < rows; ++r) {
    const double* x = a.in(kX).v.data() + r * C;
    const double* dy = a.in(kDy).v.data() + r * C;
    const double rstd = a.in(kRstd).v[static_cast<size_t>(r)];
    double dot = 0;
    for (int64_t c = 0; c < C; ++c) dot += dy[c] * a.in(kWeight).v[static_cast<size_t>(c)] * x[c];
    for (int64_t c = 0; c < C; ++c) {
      const auto at = static_cast<size_t>(r * C + c);
      const double weight = a.in(kWeight).v[static_cast<size_t>(c)];
      a.out(0).v[at] = rstd * (dy[c] * weight - x[c] * rstd * rstd * dot / static_cast<double>(C)) + (a.has(kDxSum) ? a.in(kDxSum).v[at] : 0);
      a.out(1).v[static_cast<size_t>(c)] += dy[c] * x[c] * rstd;
    }
  }
  if (!a.has(kDweightSum)) return;
  for (int64_t c = 0; c < C; ++c) a.out(1).v[static_cast<size_t>(c)] += a.in(kDweightSum).v[static_cast<size_t>(c)];
}

}  // namespace

const OpDef rms_norm_def{
    .kind = "rms_norm",
    .inputs = {"x", "weight"},
    .outputs = {"y", aux("rstd")},
    .infer = infer,
    .grad = grad,
    .cost = cost,
    .alias = {{.output = 0, .input = 0}},
    .splits = {{"rows", {0, Split::kWhole}, {0, 0}}},
    .kernels = {{Backend::cpu, Dtype::f32, rms_norm_cpu}},
    .reference = reference,
    .samples = samples,
};

const OpDef rms_norm_grad_def{
    .kind = "rms_norm_grad",
    .inputs = {"x", "weight", "rstd", "dy", optional("dx_sum"), optional("dweight_sum")},
    .outputs = {"dx", "dweight"},
    .infer = infer_grad,
    .cost = cost_grad,
    .alias = {{.output = 0, .input = kDy}},
    .accumulate = {{.output = 0, .input = kDxSum}, {.output = 1, .input = kDweightSum}},
    .splits = {{"rows", {0, Split::kWhole, 0, 0, 0, Split::kWhole}, {0, Split::kPartial}}},
    .kernels = {{Backend::cpu, Dtype::f32, rms_norm_grad_cpu}},
    .reference = reference_grad,
};

ValueId rms_norm(Builder& b, std::string_view name, const RmsNorm& p) {
  return b.emit(rms_norm_def, name, {p.x, p.weight}, {{"eps", p.eps}})[0];
}

}  // namespace snug::ops

#include "ops/norm/rms_norm.h"

#include <cmath>

#include "base/units.h"
#include "kernels/float_kernels.h"
#include "ops/norm/norm_cpu.h"
#include "ops/norm/norm_cuda.h"
#include "ops/norm/norm_parts.h"
#include "ops/reference.h"

namespace snug::ops {
namespace {

template <bool kResidual>
void grad(GradContext& g) {
  grad_norm<kResidual>(g, rms_norm_grad_def, /*statistics=*/1);
}

Cost cost(const OpView& op, std::span<const Type>, Backend) {
  return {.flops = checked_mul(4, op.shape(0).elements(), op.name)};
}

double offset_of(const RefArgs& a) { return a.attrs.f("offset", 0); }

template <bool kResidual>
void reference(const RefArgs& a) {
  using P = NormPorts<kResidual>;
  const auto C = static_cast<size_t>(a.in(P::x).shape().back());
  const std::vector<double> x = reference_normed<kResidual>(a);
  for (size_t r = 0; r < x.size() / C; ++r) {
    double sum = 0;
    for (size_t i = r * C; i < (r + 1) * C; ++i) sum += x[i] * x[i];
    const double rstd = 1 / std::sqrt(sum / static_cast<double>(C) + a.attrs.f("eps"));
    for (size_t c = 0; c < C; ++c) {
      a.out(P::y).v[r * C + c] = x[r * C + c] * rstd * (a.in(P::weight).v[c] + offset_of(a));
    }
    a.out(P::y + 1).v[r] = rstd;
  }
}

template <bool kResidual>
std::vector<Sample> samples() {
  const auto sample = [](const char* name, const Shape& x, double offset = 0) {
    return norm_sample<kResidual>(name, x, /*params=*/1, 1e-6, offset);
  };
  return {sample("one row", {1, 8}), sample("odd width", {3, 5, 37}),
          sample("many rows", {2, 70, 48}), sample("offset", {2, 9, 40}, 1),
          sample("offset, odd width", {7, 19}, 1)};
}

// --- backward ------------------------------------------------------------------------------------

enum GradIn : size_t { kX, kWeight, kRstd, kDy, kDxSum, kDweightSum };

Cost cost_grad(const OpView& op, std::span<const Type>, Backend backend) {
  return {.flops = checked_mul(9, op.shape(kX).elements(), op.name),
          .workspace = norm_grad_scratch(op, backend, /*params=*/1)};
}

void reference_grad(const RefArgs& a) {
  const auto C = static_cast<size_t>(a.in(kX).shape().back());
  const std::vector<double>&x = a.in(kX).v, &weight = a.in(kWeight).v, &dy = a.in(kDy).v;
  const double offset = offset_of(a);
  for (size_t r = 0; r < x.size() / C; ++r) {
    const double rstd = a.in(kRstd).v[r];
    double dot = 0;
    for (size_t c = 0, i = r * C; c < C; ++c, ++i) dot += dy[i] * (weight[c] + offset) * x[i];
    const double along_x = rstd * rstd * dot / static_cast<double>(C);
    for (size_t c = 0, i = r * C; c < C; ++c, ++i) {
      a.out(0).v[i] = rstd * (dy[i] * (weight[c] + offset) - x[i] * along_x);
      a.out(1).v[c] += dy[i] * x[i] * rstd;
    }
  }
  add_accumulators(rms_norm_grad_def, a);
}

// y once more, from the statistics as they are given.
void reference_recompute(const RefArgs& a) {
  reference_grad(a);
  const std::vector<double>&x = a.in(kX).v, &weight = a.in(kWeight).v, &rstd = a.in(kRstd).v;
  for (size_t i = 0, C = weight.size(); i < x.size(); ++i) {
    a.out(2).v[i] = x[i] * rstd[i / C] * (weight[i % C] + offset_of(a));
  }
}

std::vector<Sample> samples_recompute() {
  return recompute_samples(rms_norm_recompute_grad_def, /*centered=*/false);
}

}  // namespace

const OpDef rms_norm_def{
    .kind = "rms_norm",
    .inputs = {"x", "weight"},
    .outputs = {"y", aux("rstd")},
    .infer = infer_norm,
    .grad = grad<false>,
    .cost = cost,
    .alias = {{.output = 0, .input = 0}},
    .splits = {{"rows", {0, Split::kWhole}, {0, 0}, /*min_rank=*/2}},
    .fused_recompute = FusedRecompute{.grad = &rms_norm_grad_def,
                                      .with = &rms_norm_recompute_grad_def,
                                      .output = 0,
                                      .recomputed = 2},
    .exact = {0},
    .kernels = float_kernels(rms_norm_cpu, {.run = SNUG_CUDA_KERNEL(rms_norm_cuda)}),
    .reference = reference<false>,
    .samples = samples<false>,
};

const OpDef residual_rms_norm_def{
    .kind = "residual_rms_norm",
    .inputs = {"x", "delta", "weight"},
    .outputs = {"h", "y", aux("rstd")},
    .infer = infer_norm,
    .grad = grad<true>,
    .cost = cost,
    .alias = {{.output = 0, .input = 1}, {.output = 0, .input = 0}},
    .splits = {{"rows", {0, 0, Split::kWhole}, {0, 0, 0}, /*min_rank=*/2}},
    .recompute_from_output =
        RecomputeFromOutput{.from = 0, .def = &rms_norm_def, .inputs = {2}, .outputs = {1, 2}},
    .fused_recompute = FusedRecompute{.grad = &rms_norm_grad_def,
                                      .with = &rms_norm_recompute_grad_def,
                                      .output = 1,
                                      .recomputed = 2},
    .exact = {0, 1},
    .kernels =
        float_kernels(residual_rms_norm_cpu, {.run = SNUG_CUDA_KERNEL(residual_rms_norm_cuda)}),
    .reference = reference<true>,
    .samples = samples<true>,
};

const OpDef rms_norm_grad_def{
    .kind = "rms_norm_grad",
    .inputs = {"x", "weight", "rstd", "dy", optional("dx_sum"), optional("dweight_sum")},
    .outputs = {"dx", "dweight"},
    .infer = infer_norm_grad,
    .cost = cost_grad,
    .alias = {{.output = 0, .input = kDy}},
    .accumulate = {{.output = 0, .input = kDxSum}, {.output = 1, .input = kDweightSum}},
    .splits = {{"rows",
                {0, Split::kWhole, 0, 0, 0, Split::kWhole},
                {0, Split::kPartial},
                /*min_rank=*/2}},
    .exact = {kX, kRstd},
    .kernels = float_kernels(rms_norm_grad_cpu, {.run = SNUG_CUDA_KERNEL(rms_norm_grad_cuda)}),
    .reference = reference_grad,
};

// The plain backward op, with y as one more output.
const OpDef rms_norm_recompute_grad_def = [] {
  OpDef def = rms_norm_grad_def;
  def.kind = "rms_norm_recompute_grad";
  def.outputs.emplace_back("y");
  for (const size_t input : {kDy, kDxSum, kX}) {
    def.alias.push_back({.output = 2, .input = static_cast<int>(input)});
  }
  def.splits[0].outputs.push_back(0);
  def.kernels = float_kernels(rms_norm_recompute_grad_cpu,
                              {.run = SNUG_CUDA_KERNEL(rms_norm_recompute_grad_cuda)});
  def.reference = reference_recompute;
  def.samples = samples_recompute;
  return def;
}();

namespace {

Attrs attributes(double eps, double offset) {
  Attrs attrs{{"eps", eps}};
  if (offset != 0) attrs.set("offset", offset);
  return attrs;
}

}  // namespace

ValueId rms_norm(Builder& b, std::string_view name, const RmsNorm& p) {
  return b.emit(rms_norm_def, name, {p.x, p.weight}, attributes(p.eps, p.offset))[0];
}

ResidualNorm residual_rms_norm(Builder& b, std::string_view name, const ResidualRmsNorm& p) {
  const auto out =
      b.emit(residual_rms_norm_def, name, {p.x, p.delta, p.weight}, attributes(p.eps, p.offset));
  return {.h = out[0], .y = out[1]};
}

}  // namespace snug::ops

#include "ops/norm/layer_norm.h"

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
  grad_norm<kResidual>(g, layer_norm_grad_def, /*statistics=*/2);
}

Cost cost(const OpView& op, std::span<const Type>, Backend) {
  return {.flops = checked_mul(7, op.shape(0).elements(), op.name)};
}

template <bool kResidual>
void reference(const RefArgs& a) {
  using P = NormPorts<kResidual>;
  const auto C = static_cast<size_t>(a.in(P::x).shape().back());
  const std::vector<double> x = reference_normed<kResidual>(a);
  for (size_t r = 0; r < x.size() / C; ++r) {
    double mean = 0;
    double variance = 0;
    for (size_t i = r * C; i < (r + 1) * C; ++i) mean += x[i] / static_cast<double>(C);
    for (size_t i = r * C; i < (r + 1) * C; ++i) {
      variance += (x[i] - mean) * (x[i] - mean) / static_cast<double>(C);
    }
    const double rstd = 1 / std::sqrt(variance + a.attrs.f("eps"));
    for (size_t c = 0, i = r * C; c < C; ++c, ++i) {
      a.out(P::y).v[i] = (x[i] - mean) * rstd * a.in(P::weight).v[c] + a.in(P::weight + 1).v[c];
    }
    a.out(P::y + 1).v[r] = mean;
    a.out(P::y + 2).v[r] = rstd;
  }
}

template <bool kResidual>
std::vector<Sample> samples() {
  const auto sample = [](const char* name, const Shape& x) {
    return norm_sample<kResidual>(name, x, /*params=*/2, 1e-5);
  };
  return {sample("one row", {1, 8}), sample("odd width", {3, 5, 37}),
          sample("many rows", {2, 70, 48})};
}

// --- backward ------------------------------------------------------------------------------------

enum GradIn : size_t { kX, kWeight, kMean, kRstd, kDy, kDxSum, kDweightSum, kDbiasSum, kBias };

Cost cost_grad(const OpView& op, std::span<const Type>, Backend backend) {
  return {.flops = checked_mul(13, op.shape(kX).elements(), op.name),
          .workspace = norm_grad_scratch(op, backend, /*params=*/2)};
}

void reference_grad(const RefArgs& a) {
  const auto C = static_cast<size_t>(a.in(kX).shape().back());
  const std::vector<double>&x = a.in(kX).v, &weight = a.in(kWeight).v, &dy = a.in(kDy).v;
  for (size_t r = 0; r < x.size() / C; ++r) {
    const double mean = a.in(kMean).v[r];
    const double rstd = a.in(kRstd).v[r];
    double mean_d = 0;
    double mean_dn = 0;
    for (size_t c = 0, i = r * C; c < C; ++c, ++i) {
      mean_d += dy[i] * weight[c] / static_cast<double>(C);
      mean_dn += dy[i] * weight[c] * (x[i] - mean) * rstd / static_cast<double>(C);
    }
    for (size_t c = 0, i = r * C; c < C; ++c, ++i) {
      const double n = (x[i] - mean) * rstd;
      a.out(0).v[i] = rstd * (dy[i] * weight[c] - mean_d - n * mean_dn);
      a.out(1).v[c] += dy[i] * n;
      a.out(2).v[c] += dy[i];
    }
  }
  add_accumulators(layer_norm_grad_def, a);
}

// y once more, from the statistics as they are given.
void reference_recompute(const RefArgs& a) {
  reference_grad(a);
  const std::vector<double>&x = a.in(kX).v, &weight = a.in(kWeight).v, &bias = a.in(kBias).v;
  for (size_t i = 0, C = weight.size(); i < x.size(); ++i) {
    const double n = (x[i] - a.in(kMean).v[i / C]) * a.in(kRstd).v[i / C];
    a.out(3).v[i] = n * weight[i % C] + bias[i % C];
  }
}

std::vector<Sample> samples_recompute() {
  return recompute_samples(layer_norm_recompute_grad_def, /*centered=*/true);
}

}  // namespace

const OpDef layer_norm_def{
    .kind = "layer_norm",
    .inputs = {"x", "weight", "bias"},
    .outputs = {"y", aux("mean"), aux("rstd")},
    .infer = infer_norm,
    .grad = grad<false>,
    .cost = cost,
    .alias = {{.output = 0, .input = 0}},
    .splits = {{"rows", {0, Split::kWhole, Split::kWhole}, {0, 0, 0}, /*min_rank=*/2}},
    .fused_recompute = FusedRecompute{.grad = &layer_norm_grad_def,
                                      .with = &layer_norm_recompute_grad_def,
                                      .output = 0,
                                      .recomputed = 3,
                                      .inputs = {2}},
    .exact = {0},
    .kernels = float_kernels(layer_norm_cpu, {.run = SNUG_CUDA_KERNEL(layer_norm_cuda)}),
    .reference = reference<false>,
    .samples = samples<false>,
};

const OpDef residual_layer_norm_def{
    .kind = "residual_layer_norm",
    .inputs = {"x", "delta", "weight", "bias"},
    .outputs = {"h", "y", aux("mean"), aux("rstd")},
    .infer = infer_norm,
    .grad = grad<true>,
    .cost = cost,
    .alias = {{.output = 0, .input = 1}, {.output = 0, .input = 0}},
    .splits = {{"rows", {0, 0, Split::kWhole, Split::kWhole}, {0, 0, 0, 0}, /*min_rank=*/2}},
    .recompute_from_output =
        RecomputeFromOutput{
            .from = 0, .def = &layer_norm_def, .inputs = {2, 3}, .outputs = {1, 2, 3}},
    .fused_recompute = FusedRecompute{.grad = &layer_norm_grad_def,
                                      .with = &layer_norm_recompute_grad_def,
                                      .output = 1,
                                      .recomputed = 3,
                                      .inputs = {3}},
    .exact = {0, 1},
    .kernels =
        float_kernels(residual_layer_norm_cpu, {.run = SNUG_CUDA_KERNEL(residual_layer_norm_cuda)}),
    .reference = reference<true>,
    .samples = samples<true>,
};

const OpDef layer_norm_grad_def{
    .kind = "layer_norm_grad",
    .inputs = {"x", "weight", "mean", "rstd", "dy", optional("dx_sum"), optional("dweight_sum"),
               optional("dbias_sum")},
    .outputs = {"dx", "dweight", "dbias"},
    .infer = infer_norm_grad,
    .cost = cost_grad,
    .alias = {{.output = 0, .input = kDy}},
    .accumulate = {{.output = 0, .input = kDxSum},
                   {.output = 1, .input = kDweightSum},
                   {.output = 2, .input = kDbiasSum}},
    .splits = {{"rows",
                {0, Split::kWhole, 0, 0, 0, 0, Split::kWhole, Split::kWhole},
                {0, Split::kPartial, Split::kPartial},
                /*min_rank=*/2}},
    .exact = {kX, kMean, kRstd},
    .kernels = float_kernels(layer_norm_grad_cpu, {.run = SNUG_CUDA_KERNEL(layer_norm_grad_cuda)}),
    .reference = reference_grad,
};

// The plain backward op, with y as one more output.
const OpDef layer_norm_recompute_grad_def = [] {
  OpDef def = layer_norm_grad_def;
  def.kind = "layer_norm_recompute_grad";
  def.outputs.emplace_back("y");
  def.inputs.emplace_back("bias");
  def.splits[0].inputs.push_back(Split::kWhole);
  for (const size_t input : {kDy, kDxSum, kX}) {
    def.alias.push_back({.output = 3, .input = static_cast<int>(input)});
  }
  def.splits[0].outputs.push_back(0);
  def.kernels = float_kernels(layer_norm_recompute_grad_cpu,
                              {.run = SNUG_CUDA_KERNEL(layer_norm_recompute_grad_cuda)});
  def.reference = reference_recompute;
  def.samples = samples_recompute;
  return def;
}();

ValueId layer_norm(Builder& b, std::string_view name, const LayerNorm& p) {
  return b.emit(layer_norm_def, name, {p.x, p.weight, p.bias}, {{"eps", p.eps}})[0];
}

ResidualNorm residual_layer_norm(Builder& b, std::string_view name, const ResidualLayerNorm& p) {
  const auto out =
      b.emit(residual_layer_norm_def, name, {p.x, p.delta, p.weight, p.bias}, {{"eps", p.eps}});
  return {.h = out[0], .y = out[1]};
}

}  // namespace snug::ops

#include "ops/loss/cross_entropy.h"

#include <cmath>

#include "base/units.h"
#include "kernels/float_kernels.h"
#include "ops/loss/cross_entropy_cpu.h"
#include "ops/loss/cross_entropy_cuda.h"
#include "ops/loss/targets.h"
#include "ops/reference.h"

namespace snug::ops {
namespace {

enum In : size_t { kLogits, kTargets, kLossSum };

std::vector<Type> infer(const OpView& op) {
  require_targets(op, kTargets);
  require_scalar(op, kLossSum);
  return {{Dtype::f32, {}}, {Dtype::f32, {op.shape(kLogits).rows()}}};
}

void grad(GradContext& g) {
  g.set(kLogits,
        g.emit(cross_entropy_grad_def, {g.in(kLogits), g.out(1), g.in(kTargets), g.dout(0)})[0]);
}

Cost cost(const OpView& op, std::span<const Type>, Backend) {
  return {.flops = checked_mul(4, op.shape(kLogits).elements(), op.name),
          .workspace = cross_entropy_workspace(op.shape(kLogits).rows())};
}

void reference(const RefArgs& a) {
  const auto V = static_cast<size_t>(a.in(kLogits).shape().back());
  for (size_t r = 0; r < a.in(kTargets).v.size(); ++r) {
    const double* x = a.in(kLogits).v.data() + r * V;
    const double target = a.in(kTargets).v[r];
    if (target < 0) continue;
    double sum = 0;
    for (size_t v = 0; v < V; ++v) sum += std::exp(x[v]);
    a.out(1).v[r] = std::log(sum);
    a.out(0).v[0] += std::log(sum) - x[static_cast<size_t>(target)];
  }
  add_accumulators(cross_entropy_def, a);
}

std::vector<Sample> samples() {
  const auto sample = [](const char* name, Shape rows, int64_t V) {
    std::vector<int64_t> logits(rows.dims().begin(), rows.dims().end());
    logits.push_back(V);
    return Sample{name, {{{Dtype::f32, Shape(logits)}, Fill::normal(2)}, sample_targets(rows, V)}};
  };
  return {sample("one row", {1}, 8), sample("odd vocabulary", {3, 5}, 37),
          sample("blocks", {2}, 5003)};
}

// --- backward ------------------------------------------------------------------------------------

enum GradIn : size_t { kGradLogits, kLse, kGradTargets, kDloss };

std::vector<Type> infer_grad(const OpView& op) {
  require_targets(op, kGradTargets);
  require_scalar(op, kDloss);
  require_type(op, kLse, {Dtype::f32, {op.shape(kGradLogits).rows()}});
  return {op.in(kGradLogits)};
}

Cost cost_grad(const OpView& op, std::span<const Type>, Backend) {
  return {.flops = checked_mul(3, op.shape(kGradLogits).elements(), op.name)};
}

void reference_grad(const RefArgs& a) {
  const auto V = static_cast<size_t>(a.in(kGradLogits).shape().back());
  const double dloss = a.in(kDloss).v[0];
  for (size_t r = 0; r < a.in(kGradTargets).v.size(); ++r) {
    const double target = a.in(kGradTargets).v[r];
    if (target < 0) continue;
    for (size_t i = r * V; i < (r + 1) * V; ++i) {
      a.out(0).v[i] = dloss * std::exp(a.in(kGradLogits).v[i] - a.in(kLse).v[r]);
    }
    a.out(0).v[r * V + static_cast<size_t>(target)] -= dloss;
  }
}

}  // namespace

const OpDef cross_entropy_def{
    .kind = "cross_entropy",
    .inputs = {"logits", "targets", optional("loss_sum")},
    .outputs = {"loss", aux("lse")},
    .infer = infer,
    .grad = grad,
    .cost = cost,
    .accumulate = {{.output = 0, .input = kLossSum}},
    .splits = {{"rows", {0, 0, Split::kWhole}, {Split::kPartial, 0}, /*min_rank=*/2}},
    .exact = {kLogits},
    .kernels = float_kernels(cross_entropy_cpu, {.run = SNUG_CUDA_KERNEL(cross_entropy_cuda)}),
    .reference = reference,
    .samples = samples,
};

const OpDef cross_entropy_grad_def{
    .kind = "cross_entropy_grad",
    .inputs = {"logits", "lse", "targets", "dloss"},
    .outputs = {"dlogits"},
    .infer = infer_grad,
    .cost = cost_grad,
    .alias = {{.output = 0, .input = kGradLogits}},
    .splits = {{"rows", {0, 0, 0, Split::kWhole}, {0}, /*min_rank=*/2}},
    .exact = {kGradLogits, kLse},
    .kernels =
        float_kernels(cross_entropy_grad_cpu, {.run = SNUG_CUDA_KERNEL(cross_entropy_grad_cuda)}),
    .reference = reference_grad,
};

ValueId cross_entropy(Builder& b, std::string_view name, const CrossEntropy& p) {
  return b.emit(cross_entropy_def, name, {p.logits, p.targets})[0];
}

}  // namespace snug::ops

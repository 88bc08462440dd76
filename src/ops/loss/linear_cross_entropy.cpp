#include "ops/loss/linear_cross_entropy.h"

#include <cmath>

#include "base/units.h"
#include "kernels/float_kernels.h"
#include "ops/infer.h"
#include "ops/loss/linear_cross_entropy_cpu.h"
#include "ops/loss/linear_cross_entropy_cuda.h"
#include "ops/loss/targets.h"
#include "ops/reference.h"

namespace snug::ops {
namespace {

using In = LinearCrossEntropyIn;
using GradIn = LinearCrossEntropyGradIn;

// What the forward and the backward op ask of (x, weight, targets) and the bias at its port.
void require_head(const OpView& op, size_t bias) {
  require_targets(op, In::kTargets);
  const Type &x = op.in(In::kX), &weight = op.in(In::kWeight);
  op.require(
      weight.shape.rank() == 2 && weight.shape[1] == x.shape.back() && weight.dtype == x.dtype,
      "x {} and weight {} do not multiply: weight must be [V, C]", x.text(), weight.text());
  op.require(op.attrs.i("chunk") >= 1, "a chunk of {} tokens", op.attrs.i("chunk"));
  require_type(op, bias, {weight.dtype, {weight.shape[0]}});
}

std::vector<Type> infer(const OpView& op) {
  require_head(op, In::kBias);
  require_scalar(op, In::kLossSum);
  return {{Dtype::f32, {}}};
}

void grad(GradContext& g) {
  std::vector<ValueId> inputs{g.in(In::kX), g.in(In::kWeight), g.in(In::kTargets), g.dout(0)};
  if (!g.wants(In::kWeight) && !g.wants(In::kBias)) {
    inputs.resize(GradIn::kFrozenBias);
    inputs.push_back(g.in(In::kBias));
    const auto out = g.emit(linear_cross_entropy_grad_input_def, std::move(inputs), g.attrs());
    g.replaces(0, out[0]);
    g.set(In::kX, out[1]);
    return;
  }
  if (g.has(In::kBias)) {
    inputs.resize(GradIn::kBias);
    inputs.push_back(g.in(In::kBias));
  }
  const OpDef& def =
      g.has(In::kBias) ? linear_bias_cross_entropy_grad_def : linear_cross_entropy_grad_def;
  const auto out = g.emit(def, std::move(inputs), g.attrs());
  g.replaces(0, out[0]);
  g.set(In::kX, out[1]);
  g.set(In::kWeight, out[2]);
  if (g.has(In::kBias)) g.set(In::kBias, out[3]);
}

// The sizes that cost is made of.
struct Sizes {
  LossHead head;
  int64_t sweeps;             // how often the weight is read from end to end
  int64_t gemm_flops;         // of one GEMM over all chunks
  int64_t x, weight, logits;  // bytes
  int64_t cuda_logits;        // which are in the type of x there
};

Sizes sizes_of(const OpView& op) {
  const Type &x = op.in(In::kX), &weight = op.in(In::kWeight);
  Sizes s{};
  s.head = {.rows = x.shape.rows(),
            .C = x.shape.back(),
            .V = weight.shape[0],
            .chunk = op.attrs.i("chunk"),
            .dtype = x.dtype};
  s.sweeps = ceil_div(s.head.rows, s.head.chunk);
  const int64_t logits = checked_mul(s.head.rows, s.head.V, op.name);
  s.gemm_flops = checked_mul(2 * s.head.C, logits, op.name);
  s.x = x.bytes();
  s.weight = checked_mul(s.sweeps, weight.bytes(), op.name);
  s.logits = checked_mul(size_of(Dtype::f32), logits, op.name);
  s.cuda_logits = checked_mul(size_of(x.dtype), logits, op.name);
  return s;
}

// On the CPU forward writes the logits and reads them twice: for their maximum, and into
// exponentials; on CUDA once for both.
Cost cost(const OpView& op, std::span<const Type>, Backend backend) {
  const Sizes s = sizes_of(op);
  if (backend == Backend::cuda) {
    return {.flops = s.gemm_flops,
            .bytes_read = s.x + s.weight + s.cuda_logits,
            .bytes_written = s.cuda_logits,
            .workspace = CudaLossScratch::of(s.head).end};
  }
  return {.flops = s.gemm_flops,
          .bytes_read = s.x + s.weight + 2 * s.logits,
          .bytes_written = 2 * s.logits,
          .workspace = linear_cross_entropy_workspace(s.head)};
}

std::vector<double> reference_logits(const RefArgs& a, size_t r, size_t bias) {
  const auto C = static_cast<size_t>(a.in(In::kX).shape().back());
  std::vector<double> logits(static_cast<size_t>(a.in(In::kWeight).shape()[0]));
  for (size_t v = 0; v < logits.size(); ++v) {
    logits[v] = a.has(bias) ? a.in(bias).v[v] : 0;
    for (size_t c = 0; c < C; ++c)
      logits[v] += a.in(In::kX).v[r * C + c] * a.in(In::kWeight).v[v * C + c];
  }
  return logits;
}

double log_sum_exp(const std::vector<double>& logits) {
  double sum = 0;
  for (double x : logits) sum += std::exp(x);
  return std::log(sum);
}

void reference(const RefArgs& a) {
  for (size_t r = 0; r < a.in(In::kTargets).v.size(); ++r) {
    const double target = a.in(In::kTargets).v[r];
    if (target < 0) continue;
    const std::vector<double> logits = reference_logits(a, r, In::kBias);
    a.out(0).v[0] += log_sum_exp(logits) - logits[static_cast<size_t>(target)];
  }
  add_accumulators(linear_cross_entropy_def, a);
}

std::vector<Sample> samples() {
  struct Case {
    const char* name;
    Shape rows;
    int64_t V, C, chunk;
    bool bias;
  };
  std::vector<Sample> out;
  for (const Case& c : {Case{"one row", {1}, 8, 4, 1024, false},
                        Case{"chunks and a rest", {2, 5}, 37, 12, 3, false},
                        Case{"chunk beyond the rows", {7}, 33, 5, 1024, true},
                        Case{"bias in chunks", {3, 3}, 21, 8, 4, true}}) {
    std::vector<int64_t> x(c.rows.dims().begin(), c.rows.dims().end());
    x.push_back(c.C);
    out.push_back({c.name,
                   {{{Dtype::f32, Shape(x)}},
                    {{Dtype::f32, {c.V, c.C}}},
                    sample_targets(c.rows, c.V),
                    {{Dtype::f32, {c.V}}, c.bias ? Fill::normal() : Fill::absent()}},
                   {{"chunk", c.chunk}}});
  }
  return out;
}

// --- backward ------------------------------------------------------------------------------------

// What is trained in addition to x.
enum class Trained : uint8_t { nothing, weight, weight_and_bias };
constexpr size_t bias_port(Trained trained) {
  return trained == Trained::nothing ? GradIn::kFrozenBias : GradIn::kBias;
}

template <Trained kTrained>
std::vector<Type> infer_grad(const OpView& op) {
  require_head(op, bias_port(kTrained));
  require_scalar(op, GradIn::kDloss);
  const Dtype grads = grad_dtype(op, op.in(GradIn::kWeight).dtype);
  std::vector<Type> types{{Dtype::f32, {}}, op.in(GradIn::kX)};
  if (kTrained != Trained::nothing) types.push_back({grads, op.shape(GradIn::kWeight)});
  if (kTrained == Trained::weight_and_bias) types.push_back({grads, op.shape(GradIn::kBias)});
  for (const Accumulate& a : op.def.accumulate) {
    require_type(op, static_cast<size_t>(a.input), types[static_cast<size_t>(a.output)]);
  }
  return types;
}

// Three GEMMs a chunk; the weight is read twice and its gradient read and written once per
// chunk. On CUDA the logits are written twice, by their GEMM and by softmax, which reads them as
// the two other GEMMs and the bias gradient do.
template <Trained kTrained>
Cost cost_grad(const OpView& op, std::span<const Type> outputs, Backend backend) {
  Sizes s = sizes_of(op);
  s.head.backward = true;
  s.head.dweight = kTrained != Trained::nothing;
  s.head.dbias = kTrained == Trained::weight_and_bias;
  if (s.head.dweight) s.head.grads = outputs[2].dtype;
  const int64_t dweight_bytes =
      s.head.dweight ? checked_mul(s.sweeps, outputs[2].bytes(), op.name) : 0;
  const int64_t gemms = s.head.dweight ? 3 : 2;
  if (backend == Backend::cuda) {
    const int64_t logits_read = gemms + (s.head.dbias ? 1 : 0);
    return {.flops = gemms * s.gemm_flops,
            .bytes_read = 2 * s.x + 2 * s.weight + dweight_bytes + logits_read * s.cuda_logits,
            .bytes_written = s.x + dweight_bytes + 2 * s.cuda_logits,
            .workspace = CudaLossScratch::of(s.head).end};
  }
  return {.flops = gemms * s.gemm_flops,
          .bytes_read = 2 * s.x + 2 * s.weight + dweight_bytes + (gemms + 2) * s.logits,
          .bytes_written = s.x + dweight_bytes + 3 * s.logits,
          .workspace = linear_cross_entropy_workspace(s.head)};
}

template <Trained kTrained>
void reference_grad(const RefArgs& a) {
  const auto C = static_cast<size_t>(a.in(GradIn::kX).shape().back());
  const double dloss = a.in(GradIn::kDloss).v[0];
  for (size_t r = 0; r < a.in(GradIn::kTargets).v.size(); ++r) {
    if (a.in(GradIn::kTargets).v[r] < 0) continue;
    const auto target = static_cast<size_t>(a.in(GradIn::kTargets).v[r]);
    const std::vector<double> logits = reference_logits(a, r, bias_port(kTrained));
    const double lse = log_sum_exp(logits);
    a.out(0).v[0] += lse - logits[target];
    for (size_t v = 0; v < logits.size(); ++v) {
      const double dlogit = dloss * (std::exp(logits[v] - lse) - (v == target ? 1 : 0));
      for (size_t c = 0; c < C; ++c) {
        a.out(1).v[r * C + c] += dlogit * a.in(GradIn::kWeight).v[v * C + c];
        if (kTrained != Trained::nothing)
          a.out(2).v[v * C + c] += dlogit * a.in(GradIn::kX).v[r * C + c];
      }
      if (kTrained == Trained::weight_and_bias) a.out(3).v[v] += dlogit;
    }
  }
  add_accumulators(kTrained == Trained::weight_and_bias ? linear_bias_cross_entropy_grad_def
                   : kTrained == Trained::weight        ? linear_cross_entropy_grad_def
                                                        : linear_cross_entropy_grad_input_def,
                   a);
}

// No sample of the forward op freezes its weight.
std::vector<Sample> samples_of_frozen() {
  const SampleInput dloss{{Dtype::f32, {}}}, absent{{Dtype::f32, {}}, Fill::absent()};
  std::vector<Sample> out;
  for (Sample& forward : samples()) {
    std::vector<SampleInput>& in = forward.inputs;
    out.push_back(
        {forward.name,
         {in[In::kX], in[In::kWeight], in[In::kTargets], dloss, absent, absent, in[In::kBias]},
         forward.attrs});
  }
  return out;
}

template <Trained kTrained>
OpDef grad_def(std::string_view kind) {
  constexpr bool kFrozen = kTrained == Trained::nothing;
  OpDef def{
      .kind = kind,
      .inputs = {"x", "weight", "targets", "dloss", optional("loss_sum"), optional("dx_sum"),
                 kFrozen ? optional("bias") : optional("dweight_sum")},
      .outputs = {"loss", "dx"},
      .infer = infer_grad<kTrained>,
      .cost = cost_grad<kTrained>,
      .alias = {{.output = 1, .input = GradIn::kX}},
      .accumulate = {{.output = 0, .input = GradIn::kLossSum},
                     {.output = 1, .input = GradIn::kDxSum}},
      .splits = {{"rows",
                  {0, Split::kWhole, 0, Split::kWhole, Split::kWhole, 0, Split::kWhole},
                  {Split::kPartial, 0},
                  /*min_rank=*/2}},
      .exact = {GradIn::kX},
      .matmul = true,
      .kernels =
          float_kernels(linear_cross_entropy_grad_cpu,
                        {.run = SNUG_CUDA_KERNEL(linear_cross_entropy_grad_cuda),
                         .prepare = SNUG_CUDA_KERNEL(linear_cross_entropy_grad_cuda_prepare)}),
      .reference = reference_grad<kTrained>,
  };
  if (kFrozen) {
    def.samples = samples_of_frozen;
    return def;
  }
  def.outputs.push_back("dweight");
  def.accumulate.push_back({.output = 2, .input = GradIn::kDweightSum});
  def.splits[0].outputs.push_back(Split::kPartial);
  if (kTrained == Trained::weight) return def;
  def.inputs.insert(def.inputs.end(), {"bias", optional("dbias_sum")});
  def.outputs.push_back("dbias");
  def.accumulate.push_back({.output = 3, .input = GradIn::kDbiasSum});
  def.splits[0].inputs.insert(def.splits[0].inputs.end(), 2, Split::kWhole);
  def.splits[0].outputs.push_back(Split::kPartial);
  return def;
}

}  // namespace

const OpDef linear_cross_entropy_def{
    .kind = "linear_cross_entropy",
    .inputs = {"x", "weight", "targets", optional("bias"), optional("loss_sum")},
    .outputs = {"loss"},
    .infer = infer,
    .grad = grad,
    .cost = cost,
    .accumulate = {{.output = 0, .input = In::kLossSum}},
    .splits = {{"rows",
                {0, Split::kWhole, 0, Split::kWhole, Split::kWhole},
                {Split::kPartial},
                /*min_rank=*/2}},
    .exact = {In::kX},
    .matmul = true,
    .kernels = float_kernels(linear_cross_entropy_cpu,
                             {.run = SNUG_CUDA_KERNEL(linear_cross_entropy_cuda),
                              .prepare = SNUG_CUDA_KERNEL(linear_cross_entropy_cuda_prepare)}),
    .reference = reference,
    .samples = samples,
};

const OpDef linear_cross_entropy_grad_def = grad_def<Trained::weight>("linear_cross_entropy_grad");
const OpDef linear_bias_cross_entropy_grad_def =
    grad_def<Trained::weight_and_bias>("linear_bias_cross_entropy_grad");
const OpDef linear_cross_entropy_grad_input_def =
    grad_def<Trained::nothing>("linear_cross_entropy_grad_input");

ValueId linear_cross_entropy(Builder& b, std::string_view name, const LinearCrossEntropy& p) {
  return b.emit(linear_cross_entropy_def, name, {p.x, p.weight, p.targets, p.bias},
                {{"chunk", p.chunk}})[0];
}

}  // namespace snug::ops

#include "ops/loss/vocabulary_loss.h"

#include <cmath>

#include "base/units.h"
#include "kernels/float_kernels.h"
#include "ops/infer.h"
#include "ops/loss/linear_cross_entropy_cpu.h"
#include "ops/loss/linear_cross_entropy_cuda.h"
#include "ops/loss/targets.h"
#include "ops/loss/vocabulary_loss_kernels.h"
#include "ops/loss/vocabulary_part.h"
#include "ops/reference.h"

namespace snug::ops {
namespace {

using VocabularyIn = LinearCrossEntropyIn;
using VocabularyGradIn = LinearCrossEntropyGradIn;

// What all of them ask of (x, weight, targets), the bias at its port, and the attributes.
void require_part(const OpView& op, size_t bias) {
  require_targets(op, VocabularyIn::kTargets);
  const Type &x = op.in(VocabularyIn::kX), &weight = op.in(VocabularyIn::kWeight);
  op.require(
      weight.shape.rank() == 2 && weight.shape[1] == x.shape.back() && weight.dtype == x.dtype,
      "x {} and weight {} do not multiply: weight must be [V, C]", x.text(), weight.text());
  require_type(op, bias, {weight.dtype, {weight.shape[0]}});
  op.require(op.attrs.i("chunk") >= 1, "a chunk of {} tokens", op.attrs.i("chunk"));
  op.require(op.attrs.i("first") >= 0 && op.attrs.i("words") >= 1 && op.attrs.i("ranks") >= 1,
             "words from {} on, of {}, on {} ranks", op.attrs.i("first"), op.attrs.i("words"),
             op.attrs.i("ranks"));
}

void require_stats(const OpView& op, size_t port) {
  const int64_t rows = op.shape(VocabularyIn::kX).rows();
  op.require(op.has(port), "the statistics of the ranks are missing");
  require_type(op, port, {Dtype::f32, {checked_mul(op.attrs.i("ranks"), rows, "statistics"), 2}});
}

std::vector<Type> infer_stats(const OpView& op) {
  require_part(op, VocabularyIn::kBias);
  return {{Dtype::f32, {op.shape(VocabularyIn::kX).rows(), 2}}};
}

std::vector<Type> infer_loss(const OpView& op) {
  require_part(op, VocabularyIn::kBias);
  require_scalar(op, VocabularyIn::kLossSum);
  require_stats(op, kVocabularyStats);
  return {{Dtype::f32, {}}};
}

template <bool kBias>
std::vector<Type> infer_loss_grad(const OpView& op) {
  require_part(op, bias_port_of_grad(kBias ? 4 : 3));
  require_scalar(op, VocabularyGradIn::kDloss);
  require_stats(op, vocabulary_stats_port_of_grad(kBias));
  const Dtype grads = grad_dtype(op, op.in(VocabularyGradIn::kWeight).dtype);
  std::vector<Type> types{
      {Dtype::f32, {}}, op.in(VocabularyGradIn::kX), {grads, op.shape(VocabularyGradIn::kWeight)}};
  if (kBias) types.push_back({grads, op.shape(VocabularyGradIn::kBias)});
  for (const Accumulate& a : op.def.accumulate)
    require_type(op, static_cast<size_t>(a.input), types[static_cast<size_t>(a.output)]);
  return types;
}

void grad_of_loss(GradContext& g) {
  const bool bias = g.has(VocabularyIn::kBias);
  std::vector<ValueId> inputs{g.in(VocabularyIn::kX), g.in(VocabularyIn::kWeight),
                              g.in(VocabularyIn::kTargets), g.dout(0)};
  inputs.resize(vocabulary_stats_port_of_grad(bias));
  if (bias) inputs[VocabularyGradIn::kBias] = g.in(VocabularyIn::kBias);
  inputs.push_back(g.in(kVocabularyStats));
  const auto out = g.emit(bias ? vocabulary_bias_loss_grad_def : vocabulary_loss_grad_def,
                          std::move(inputs), g.attrs());
  g.replaces(0, out[0]);
  g.set(VocabularyIn::kX, out[1]);
  g.set(VocabularyIn::kWeight, out[2]);
  if (bias) g.set(VocabularyIn::kBias, out[3]);
}

// --- cost ---------------------------------------------------------------------------------------

LossHead head_of(const OpView& op) {
  const Type &x = op.in(VocabularyIn::kX), &weight = op.in(VocabularyIn::kWeight);
  return {.rows = x.shape.rows(),
          .C = x.shape.back(),
          .V = weight.shape[0],
          .chunk = op.attrs.i("chunk"),
          .dtype = x.dtype};
}

// `gemms` over all chunks; each reads the weight, and logits are read and written around it.
Cost cost_of_sweep(const OpView& op, const LossHead& head, int64_t gemms, Backend backend) {
  const int64_t logits = checked_mul(head.rows, head.V, op.name);
  const int64_t logit_bytes =
      checked_mul(logits, size_of(backend == Backend::cuda ? head.dtype : Dtype::f32), op.name);
  const int64_t weight =
      checked_mul(ceil_div(head.rows, head.chunk), op.in(VocabularyIn::kWeight).bytes(), op.name);
  const int64_t x = op.in(VocabularyIn::kX).bytes();
  return {.flops = checked_mul(gemms * 2 * head.C, logits, op.name),
          .bytes_read = x + gemms * (weight + logit_bytes),
          .bytes_written = (gemms > 1 ? x + weight : 0) + 2 * logit_bytes,
          .workspace = backend == Backend::cuda ? VocabularyScratch::of(head).end
                                                : linear_cross_entropy_workspace(head)};
}

Cost cost_stats(const OpView& op, std::span<const Type>, Backend backend) {
  return cost_of_sweep(op, head_of(op), 1, backend);
}

// From the statistics alone.
Cost cost_loss(const OpView& op, std::span<const Type>, Backend) {
  const int64_t rows = op.shape(VocabularyIn::kX).rows();
  return {.flops = 4 * op.shape(kVocabularyStats).elements(),
          .bytes_read = op.in(kVocabularyStats).bytes() + op.in(VocabularyIn::kTargets).bytes(),
          .bytes_written = size_of(Dtype::f32),
          .workspace = checked_mul(rows, size_of(Dtype::f64), op.name)};
}

template <bool kBias>
Cost cost_loss_grad(const OpView& op, std::span<const Type> outputs, Backend backend) {
  LossHead head = head_of(op);
  head.backward = head.dweight = true;
  head.dbias = kBias;
  head.grads = outputs[2].dtype;
  return cost_of_sweep(op, head, 3, backend);
}

// --- reference ----------------------------------------------------------------------------------

struct RefRow {
  std::vector<double> logits;  // of the words here
  double lse = static_cast<double>(kNoWords), target = 0;
};

RefRow reference_row(const RefArgs& a, size_t r, size_t bias) {
  const auto C = static_cast<size_t>(a.in(VocabularyIn::kX).shape().back());
  const WordsHere here = WordsHere::of(a.attrs, a.in(VocabularyIn::kWeight).shape()[0]);
  RefRow row;
  row.logits.resize(static_cast<size_t>(here.count));
  double sum = 0;
  for (size_t v = 0; v < row.logits.size(); ++v) {
    row.logits[v] = a.has(bias) ? a.in(bias).v[v] : 0;
    for (size_t c = 0; c < C; ++c)
      row.logits[v] +=
          a.in(VocabularyIn::kX).v[r * C + c] * a.in(VocabularyIn::kWeight).v[v * C + c];
    sum += std::exp(row.logits[v]);
  }
  if (here.count > 0) row.lse = std::log(sum);
  const int32_t target = here.target(static_cast<int32_t>(a.in(VocabularyIn::kTargets).v[r]));
  if (target != kOtherRank && target != kNoTarget)
    row.target = row.logits[static_cast<size_t>(target)];
  return row;
}

bool counts(const RefArgs& a, size_t r) { return a.in(VocabularyIn::kTargets).v[r] >= 0; }

void reference_stats(const RefArgs& a) {
  for (size_t r = 0; r < a.in(VocabularyIn::kTargets).v.size(); ++r) {
    if (!counts(a, r)) continue;
    const RefRow row = reference_row(a, r, VocabularyIn::kBias);
    a.out(0).v[2 * r] = row.lse;
    a.out(0).v[2 * r + 1] = row.target;
  }
}

// The rank's own statistics are made here, not read: the loss is a function of x and weight.
AllWords reference_words(const RefArgs& a, size_t r, const RefRow& row, size_t port) {
  std::vector<double> stats = a.in(port).v;
  const auto rows = a.in(VocabularyIn::kTargets).v.size();
  const auto own = static_cast<size_t>(a.attrs.i("first") / a.in(VocabularyIn::kWeight).shape()[0]);
  stats[2 * (own * rows + r)] = row.lse;
  stats[2 * (own * rows + r) + 1] = row.target;
  return all_words(stats.data(), a.attrs.i("ranks"), static_cast<int64_t>(rows),
                   static_cast<int64_t>(r));
}

void reference_loss(const RefArgs& a) {
  for (size_t r = 0; r < a.in(VocabularyIn::kTargets).v.size(); ++r) {
    if (!counts(a, r)) continue;
    const AllWords all =
        reference_words(a, r, reference_row(a, r, VocabularyIn::kBias), kVocabularyStats);
    a.out(0).v[0] += all.lse - all.target;
  }
  add_accumulators(vocabulary_loss_def, a);
}

template <bool kBias>
void reference_loss_grad(const RefArgs& a) {
  const auto C = static_cast<size_t>(a.in(VocabularyGradIn::kX).shape().back());
  const double dloss = a.in(VocabularyGradIn::kDloss).v[0];
  const WordsHere here = WordsHere::of(a.attrs, a.in(VocabularyIn::kWeight).shape()[0]);
  for (size_t r = 0; r < a.in(VocabularyGradIn::kTargets).v.size(); ++r) {
    if (!counts(a, r)) continue;
    const RefRow row = reference_row(a, r, bias_port_of_grad(kBias ? 4 : 3));
    const AllWords all = reference_words(a, r, row, vocabulary_stats_port_of_grad(kBias));
    a.out(0).v[0] += all.lse - all.target;
    const auto target =
        static_cast<size_t>(here.target(static_cast<int32_t>(a.in(VocabularyIn::kTargets).v[r])));
    for (size_t v = 0; v < row.logits.size(); ++v) {
      const double dlogit = dloss * (std::exp(row.logits[v] - all.lse) - (v == target ? 1 : 0));
      for (size_t c = 0; c < C; ++c) {
        a.out(1).v[r * C + c] += dlogit * a.in(VocabularyGradIn::kWeight).v[v * C + c];
        a.out(2).v[v * C + c] += dlogit * a.in(VocabularyGradIn::kX).v[r * C + c];
      }
      if (kBias) a.out(3).v[v] += dlogit;
    }
  }
  add_accumulators(kBias ? vocabulary_bias_loss_grad_def : vocabulary_loss_grad_def, a);
}

// --- samples ------------------------------------------------------------------------------------

struct PartCase {
  const char* name;
  int64_t rows, V, C, chunk;
  VocabularyPart part;
  bool bias = false;
};

const PartCase kPartCases[] = {
    {"one rank", 6, 33, 12, 4, {.first = 0, .words = 33, .ranks = 1}},
    {"the second of three", 10, 16, 8, 3, {.first = 16, .words = 48, .ranks = 3}},
    {"padding, bias", 7, 24, 16, 1024, {.first = 24, .words = 41, .ranks = 2}, true},
    {"no word here", 5, 8, 4, 2, {.first = 16, .words = 11, .ranks = 3}, true},
};

std::vector<SampleInput> head_inputs(const PartCase& c) {
  return {{{Dtype::f32, {c.rows, c.C}}},
          {{Dtype::f32, {c.V, c.C}}},
          sample_targets({c.rows}, c.part.words),
          {{Dtype::f32, {c.V}}, c.bias ? Fill::normal() : Fill::absent()}};
}

Attrs attrs_of(const VocabularyPart& part, int64_t chunk) {
  return {{"chunk", chunk}, {"first", part.first}, {"words", part.words}, {"ranks", part.ranks}};
}

std::vector<Sample> samples_of_stats() {
  std::vector<Sample> out;
  for (const PartCase& c : kPartCases)
    out.push_back({c.name, head_inputs(c), attrs_of(c.part, c.chunk)});
  return out;
}

// What the other ranks might have, and what this one has of (x, weight, targets, [bias]).
SampleInput sample_stats(const PartCase& c) {
  const auto fill = [c](RefTensor& self, std::span<const RefTensor> earlier) {
    const Attrs attrs = attrs_of(c.part, c.chunk);
    const RefTensor* in[] = {&earlier[0], &earlier[1], &earlier[2], c.bias ? &earlier[3] : nullptr};
    const RefArgs args{in, {}, attrs};
    for (int64_t k = 0; k < c.part.ranks; ++k) {
      for (int64_t r = 0; r < c.rows; ++r) {
        const auto row = static_cast<size_t>(r);
        const auto at = static_cast<size_t>(2 * (k * c.rows + r));
        const bool own = k == c.part.first / c.V;
        const RefRow made = own ? reference_row(args, row, VocabularyIn::kBias) : RefRow{};
        const WordsHere here = WordsHere::of(attrs, c.V);
        const auto target = static_cast<int32_t>(earlier[2].v[row]);
        const bool theirs = !own && here.target(target) == kOtherRank && target / c.V == k;
        self.v[at] = target < 0 ? 0 : own ? made.lse : 2 + 0.125 * static_cast<double>(r + k);
        self.v[at + 1] = target < 0 ? 0 : own ? made.target : theirs ? 0.5 : 0;
      }
    }
  };
  return {{Dtype::f32, {c.part.ranks * c.rows, 2}}, {.compute = fill}};
}

std::vector<Sample> samples_of_loss() {
  std::vector<Sample> out;
  for (const PartCase& c : kPartCases) {
    std::vector<SampleInput> inputs = head_inputs(c);
    inputs.push_back({{Dtype::f32, {}}, Fill::absent()});
    inputs.push_back(sample_stats(c));
    out.push_back({c.name, std::move(inputs), attrs_of(c.part, c.chunk)});
  }
  return out;
}

template <bool kBias>
OpDef loss_grad_def(std::string_view kind) {
  OpDef def{
      .kind = kind,
      .inputs = {"x", "weight", "targets", "dloss", optional("loss_sum"), optional("dx_sum"),
                 optional("dweight_sum")},
      .outputs = {"loss", "dx", "dweight"},
      .infer = infer_loss_grad<kBias>,
      .cost = cost_loss_grad<kBias>,
      .alias = {{.output = 1, .input = VocabularyGradIn::kX}},
      .accumulate = {{.output = 0, .input = VocabularyGradIn::kLossSum},
                     {.output = 1, .input = VocabularyGradIn::kDxSum},
                     {.output = 2, .input = VocabularyGradIn::kDweightSum}},
      .exact = {VocabularyGradIn::kX},
      .matmul = true,
      .kernels =
          float_kernels(vocabulary_loss_grad_cpu,
                        {.run = SNUG_CUDA_KERNEL(vocabulary_loss_grad_cuda),
                         .prepare = SNUG_CUDA_KERNEL(linear_cross_entropy_grad_cuda_prepare)}),
      .reference = reference_loss_grad<kBias>,
  };
  if (kBias) {
    def.inputs.insert(def.inputs.end(), {"bias", optional("dbias_sum")});
    def.outputs.push_back("dbias");
    def.accumulate.push_back({.output = 3, .input = VocabularyGradIn::kDbiasSum});
  }
  def.inputs.push_back("stats");
  def.exact.push_back(static_cast<int>(vocabulary_stats_port_of_grad(kBias)));
  return def;
}

}  // namespace

const OpDef vocabulary_stats_def{
    .kind = "vocabulary_stats",
    .inputs = {"x", "weight", "targets", optional("bias")},
    .outputs = {"stats"},
    .infer = infer_stats,
    .cost = cost_stats,
    .exact = {VocabularyIn::kX},
    .matmul = true,
    .kernels = float_kernels(vocabulary_stats_cpu,
                             {.run = SNUG_CUDA_KERNEL(vocabulary_stats_cuda),
                              .prepare = SNUG_CUDA_KERNEL(linear_cross_entropy_cuda_prepare)}),
    .reference = reference_stats,
    .samples = samples_of_stats,
};

const OpDef vocabulary_loss_def{
    .kind = "vocabulary_loss",
    .inputs = {"x", "weight", "targets", optional("bias"), optional("loss_sum"), "stats"},
    .outputs = {"loss"},
    .infer = infer_loss,
    .grad = grad_of_loss,
    .cost = cost_loss,
    .accumulate = {{.output = 0, .input = VocabularyIn::kLossSum}},
    .exact = {VocabularyIn::kX, static_cast<int>(kVocabularyStats)},
    .kernels = float_kernels(vocabulary_loss_cpu, {.run = SNUG_CUDA_KERNEL(vocabulary_loss_cuda)}),
    .reference = reference_loss,
    .samples = samples_of_loss,
};

const OpDef vocabulary_loss_grad_def = loss_grad_def<false>("vocabulary_loss_grad");
const OpDef vocabulary_bias_loss_grad_def = loss_grad_def<true>("vocabulary_bias_loss_grad");

ValueId vocabulary_stats(Builder& b, std::string_view name, const LinearCrossEntropy& p,
                         const VocabularyPart& part) {
  return b.emit(vocabulary_stats_def, name, {p.x, p.weight, p.targets, p.bias},
                attrs_of(part, p.chunk))[0];
}

ValueId vocabulary_loss(Builder& b, std::string_view name, const LinearCrossEntropy& p,
                        const VocabularyPart& part, ValueId stats) {
  return b.emit(vocabulary_loss_def, name, {p.x, p.weight, p.targets, p.bias, ValueId{}, stats},
                attrs_of(part, p.chunk))[0];
}

}  // namespace snug::ops

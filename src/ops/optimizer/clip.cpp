#include "ops/optimizer/clip.h"

#include <cmath>
#include <limits>
#include <optional>

#include "base/units.h"
#include "kernels/float_kernels.h"
#include "ops/infer.h"
#include "ops/optimizer/optimizer_cpu.h"
#include "ops/optimizer/optimizer_cuda.h"
#include "ops/optimizer/sum_blocks.h"

namespace snug::ops {
namespace {

// --- sum_squares ---------------------------------------------------------------------------------

std::vector<Type> infer_sum(const OpView& op) {
  const Type& grad = op.in(0);
  op.require(is_model_float(grad.dtype), "{} is no gradient", grad.text());
  return {{Dtype::f64, {sum_blocks(grad.shape.elements())}}};
}

Cost cost_sum(const OpView& op, std::span<const Type>, Backend) {
  return {.flops = checked_mul(2, op.in(0).shape.elements(), op.name)};
}

void reference_sum(const RefArgs& a) {
  const std::vector<double>& grad = a.in(0).v;
  for (size_t i = 0; i < grad.size(); ++i) a.out(0).v[i / kSumBlock] += grad[i] * grad[i];
}

std::vector<Sample> samples_sum() {
  const auto grad = [](const char* name, const Shape& shape) {
    return Sample{name, {{{Dtype::f32, shape}}}};
  };
  return {grad("within a vector", {3}), grad("within a block", {37, 129}),
          grad("one block", {kSumBlock}), grad("blocks and a rest", {2 * kSumBlock + 4099})};
}

// --- clip ----------------------------------------------------------------------------------------

enum ClipIn : size_t { kLossScale, kLoss, kSums };

std::vector<Type> infer_clip(const OpView& op) {
  op.require(op.size() > kSums, "there is no sum of squares");
  for (const size_t port : {kLossScale, kLoss}) require_type(op, port, {Dtype::f32, {}});
  for (size_t i = kSums; i < op.size(); ++i)
    op.require(op.in(i).dtype == Dtype::f64 && op.in(i).shape.rank() == 1,
               "sum_squares is {}, not f64[blocks]", op.in(i).text());
  return {{Dtype::f32, {}}, {Dtype::f32, {}}, {Dtype::i32, {}}};
}

Cost cost_clip(const OpView& op, std::span<const Type>, Backend backend) {
  return {.workspace = backend == Backend::cuda ? clip_workspace_cuda(op.size() - kSums) : 0};
}

void reference_clip(const RefArgs& a) {
  const double max_norm = a.attrs.f("max_norm");
  const double loss_scale = a.has(kLossScale) ? a.in(kLossScale).v[0] : 1;
  double sum = 0;
  for (const RefTensor* squares : a.inputs.subspan(kSums)) {
    for (double block : squares->v) sum += block;
  }
  const double norm = std::sqrt(sum) / loss_scale;
  a.out(0).v[0] = norm;
  const bool finite = std::isfinite(norm) && (!a.has(kLoss) || std::isfinite(a.in(kLoss).v[0]));
  const bool clips = max_norm > 0 && finite;
  a.out(1).v[0] = (clips ? std::min(1.0, max_norm / (norm + 1e-6)) : 1) / loss_scale;
  a.out(2).v[0] = finite ? 1 : 0;
}

std::vector<Sample> samples_clip() {
  struct Squares {
    double each;
    int64_t blocks = 1;
  };
  const auto sample = [](const char* name, std::initializer_list<Squares> squares, double max_norm,
                         std::optional<double> loss_scale = {}, std::optional<double> loss = {}) {
    const auto given = [](std::optional<double> value) -> SampleInput {
      return {{Dtype::f32, {}}, value ? Fill::constant(*value) : Fill::absent()};
    };
    Sample result{name, {given(loss_scale), given(loss)}, {{"max_norm", max_norm}}};
    for (const Squares& s : squares)
      result.inputs.push_back({{Dtype::f64, {s.blocks}}, Fill::constant(s.each)});
    return result;
  };
  return {sample("clipped", {{25}}, 1),
          sample("within", {{0.25}}, 1),
          sample("off", {{25}}, 0),
          sample("zero", {{0}}, 1),
          sample("several gradients", {{16}, {9}}, 1),
          sample("several blocks", {{16, 3}, {0.01, kClipSlots + 5}, {9}, {0.5, 7}}, 1),
          sample("scaled, clipped", {{25e6}, {75e6}}, 1, 1024),
          sample("scaled, within", {{25}}, 1, 1024),
          sample("scaled, off", {{25e6}}, 0, 65536),
          sample("with a loss", {{25}}, 1, {}, 3),
          sample("scaled, with a loss that is inf", {{25e6}}, 1, 1024,
                 std::numeric_limits<double>::infinity())};
}

// --- advance -------------------------------------------------------------------------------------

std::vector<Type> infer_advance(const OpView& op) {
  op.require(op.in(0) == Type{Dtype::i64, {}}, "the counter is {}, not i64[]", op.in(0).text());
  return {op.in(0)};
}

void reference_advance(const RefArgs& a) { a.out(0).v[0] = a.in(0).v[0] + 1; }

std::vector<Sample> samples_advance() {
  return {{"from 41", {{{Dtype::i64, {}}, Fill::constant(41)}}}};
}

}  // namespace

const OpDef sum_squares_def{
    .kind = "sum_squares",
    .inputs = {"grad"},
    .outputs = {"sums"},
    .infer = infer_sum,
    .cost = cost_sum,
    .kernels =
        float_kernels(sum_squares_cpu, {.run = SNUG_CUDA_KERNEL(sum_squares_cuda),
                                        .run_many = SNUG_CUDA_KERNEL(sum_squares_many_cuda)}),
    .reference = reference_sum,
    .samples = samples_sum,
};

const OpDef clip_def{
    .kind = "clip",
    .inputs = {optional("loss_scale"), optional("loss"), variadic("sum_squares")},
    .outputs = {"norm", "scale", "finite"},
    .infer = infer_clip,
    .cost = cost_clip,
    .kernels =
        kernels_for({Dtype::f64, Dtype::f32}, clip_cpu, {.run = SNUG_CUDA_KERNEL(clip_cuda)}),
    .reference = reference_clip,
    .samples = samples_clip,
};

const OpDef advance_def{
    .kind = "advance",
    .inputs = {"counter"},
    .outputs = {"counter"},
    .infer = infer_advance,
    .alias = {{.output = 0, .input = 0, .must = true}},
    .kernels = kernels_for({Dtype::i64}, advance_cpu,
                           {.run = SNUG_CUDA_KERNEL(advance_cuda), .predicated = true}),
    .reference = reference_advance,
    .samples = samples_advance,
};

ValueId sum_squares(Builder& b, std::string_view name, ValueId grad) {
  return b.emit(sum_squares_def, name, {grad})[0];
}

Clip clip(Builder& b, std::string_view name, const std::vector<ValueId>& squares, double max_norm,
          ValueId loss_scale, ValueId loss) {
  std::vector<ValueId> inputs{loss_scale, loss};
  inputs.insert(inputs.end(), squares.begin(), squares.end());
  const auto out = b.emit(clip_def, name, std::move(inputs), {{"max_norm", max_norm}});
  return {.norm = out[0], .scale = out[1], .finite = out[2]};
}

ValueId advance(Builder& b, std::string_view name, ValueId counter, ValueId predicate) {
  const ValueId next = b.emit(advance_def, name, {counter})[0];
  b.last().predicate = predicate;
  return next;
}

}  // namespace snug::ops

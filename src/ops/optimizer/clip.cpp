#include "ops/optimizer/clip.h"

#include <cmath>
#include <limits>
#include <optional>

#include "base/units.h"
#include "kernels/float_kernels.h"
#include "ops/infer.h"
#include "ops/optimizer/optimizer_cpu.h"
#include "ops/optimizer/optimizer_cuda.h"

namespace snug::ops {
namespace {

// --- sum_squares ---------------------------------------------------------------------------------

std::vector<Type> infer_sum(const OpView& op) {
  op.require(op.size() > 0, "there are no gradients to sum");
  for (const Type* grad : op.inputs)
    op.require(is_model_float(grad->dtype), "{} is no gradient", grad->text());
  return {{Dtype::f64, {}}};
}

Cost cost_sum(const OpView& op, std::span<const Type>, Backend) {
  Cost cost{.workspace = sum_squares_workspace(op)};
  for (const Type* grad : op.inputs) {
    cost.flops = checked_add(cost.flops, checked_mul(2, grad->shape.elements(), op.name), op.name);
  }
  return cost;
}

void reference_sum(const RefArgs& a) {
  for (const RefTensor* grad : a.inputs) {
    for (double g : grad->v) a.out(0).v[0] += g * g;
  }
}

std::vector<Sample> samples_sum() {
  constexpr Dtype f32 = Dtype::f32, bf16 = Dtype::bf16, f16 = Dtype::f16;
  const auto grads = [](const char* name, std::initializer_list<Type> types) {
    Sample sample{name, {}};
    for (const Type& type : types) sample.inputs.push_back({type});
    return sample;
  };
  return {grads("one", {{f32, {7}}}), grads("several", {{f32, {3, 5}}, {f32, {1}}, {f32, {64, 2}}}),
          grads("over a block", {{f32, {65537}}, {f32, {9}}}),
          grads("each its own type", {{bf16, {65537}}, {f32, {9}}, {f16, {3, 5}}})};
}

// --- clip ----------------------------------------------------------------------------------------

enum ClipIn : size_t { kLossScale, kLoss, kSums };

std::vector<Type> infer_clip(const OpView& op) {
  op.require(op.size() > kSums, "there is no sum of squares");
  for (const size_t port : {kLossScale, kLoss}) require_type(op, port, {Dtype::f32, {}});
  for (size_t i = kSums; i < op.size(); ++i)
    op.require(op.in(i) == Type{Dtype::f64, {}}, "sum_squares is {}, not f64[]", op.in(i).text());
  return {{Dtype::f32, {}}, {Dtype::f32, {}}, {Dtype::i32, {}}};
}

// Scratch on CUDA: a running sum, where there are more sums than one launch takes.
Cost cost_clip(const OpView&, std::span<const Type>, Backend backend) {
  return {.workspace = backend == Backend::cuda ? size_of(Dtype::f64) : 0};
}

void reference_clip(const RefArgs& a) {
  const double max_norm = a.attrs.f("max_norm");
  const double loss_scale = a.has(kLossScale) ? a.in(kLossScale).v[0] : 1;
  double sum = 0;
  for (const RefTensor* part : a.inputs.subspan(kSums)) sum += part->v[0];
  const double norm = std::sqrt(sum) / loss_scale;
  a.out(0).v[0] = norm;
  const bool finite = std::isfinite(norm) && (!a.has(kLoss) || std::isfinite(a.in(kLoss).v[0]));
  const bool clips = max_norm > 0 && finite;
  a.out(1).v[0] = (clips ? std::min(1.0, max_norm / (norm + 1e-6)) : 1) / loss_scale;
  a.out(2).v[0] = finite ? 1 : 0;
}

std::vector<Sample> samples_clip() {
  const auto sample = [](const char* name, std::initializer_list<double> sums, double max_norm,
                         std::optional<double> loss_scale = {}, std::optional<double> loss = {}) {
    const auto given = [](std::optional<double> value) -> SampleInput {
      return {{Dtype::f32, {}}, value ? Fill::constant(*value) : Fill::absent()};
    };
    Sample result{name, {given(loss_scale), given(loss)}, {{"max_norm", max_norm}}};
    for (double sum : sums) result.inputs.push_back({{Dtype::f64, {}}, Fill::constant(sum)});
    return result;
  };
  return {sample("clipped", {25}, 1),
          sample("within", {0.25}, 1),
          sample("off", {25}, 0),
          sample("zero", {0}, 1),
          sample("several sums", {16, 9}, 1),
          sample("scaled, clipped", {25e6, 75e6}, 1, 1024),
          sample("scaled, within", {25}, 1, 1024),
          sample("scaled, off", {25e6}, 0, 65536),
          sample("with a loss", {25}, 1, {}, 3),
          sample("scaled, with a loss that is inf", {25e6}, 1, 1024,
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
    .inputs = {variadic("grads")},
    .outputs = {"sum"},
    .infer = infer_sum,
    .cost = cost_sum,
    .kernels = float_kernels(sum_squares_cpu, {.run = SNUG_CUDA_KERNEL(sum_squares_cuda)}),
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

ValueId sum_squares(Builder& b, std::string_view name, std::vector<ValueId> grads) {
  return b.emit(sum_squares_def, name, std::move(grads))[0];
}

Clip clip(Builder& b, std::string_view name, const std::vector<ValueId>& parts, double max_norm,
          ValueId loss_scale, ValueId loss) {
  std::vector<ValueId> inputs{loss_scale, loss};
  inputs.insert(inputs.end(), parts.begin(), parts.end());
  const auto out = b.emit(clip_def, name, std::move(inputs), {{"max_norm", max_norm}});
  return {.norm = out[0], .scale = out[1], .finite = out[2]};
}

ValueId advance(Builder& b, std::string_view name, ValueId counter, ValueId predicate) {
  const ValueId next = b.emit(advance_def, name, {counter})[0];
  b.last().predicate = predicate;
  return next;
}

}  // namespace snug::ops

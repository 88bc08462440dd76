#include "ops/optimizer/adam_mini.h"

#include <cmath>

#include "base/units.h"
#include "kernels/float_kernels.h"
#include "ops/optimizer/master_update.h"
#include "ops/optimizer/mini_scratch.h"
#include "ops/optimizer/optimizer_cpu.h"
#include "ops/optimizer/optimizer_cuda.h"
#include "ops/optimizer/parts.h"

namespace snug::ops {
namespace {

enum State : size_t { kM, kV };

Outputs outputs_in(const OpView& op) {
  return outputs_of(op.shape(UpdatePorts::kParam), op.attrs.b("in_out"));
}

std::vector<Type> infer(const OpView& op) {
  const std::string& groups = op.attrs.s("groups");
  int64_t parts = 0, outputs = 0;
  const bool known = for_groups(groups, [&](int64_t count, int64_t each) {
    parts = checked_add(parts, count, op.name);
    outputs = checked_add(outputs, checked_mul(count, each, op.name), op.name);
  });
  op.require(known, "groups '{}' are not a list such as 12x64,768x1", groups);
  op.require(outputs == outputs_in(op).count, "groups '{}' cover {} outputs, but {} has {}", groups,
             outputs, op.in(UpdatePorts::kParam).text(), outputs_in(op).count);
  require_moment(op, UpdatePorts::kStates + kM);
  require_type(op, UpdatePorts::kStates + kV, {Dtype::f32, {parts}});
  return infer_update(op);
}

// Scratch on the CPU: the sums, which become divisors.
Cost cost(const OpView& op, std::span<const Type> types, Backend backend) {
  Cost cost = update_cost(op, types, 12);
  cost.workspace = backend == Backend::cuda
                       ? MiniScratch::bytes(outputs_in(op))
                       : checked_mul(MiniScratch::slices_of(outputs_in(op)) * outputs_in(op).count,
                                     size_of(Dtype::f64), op.name);
  return cost;
}

// The part of every output.
std::vector<size_t> part_of_outputs(std::string_view groups) {
  std::vector<size_t> part;
  size_t next = 0;
  for_groups(groups, [&](int64_t count, int64_t each) {
    for (int64_t p = 0; p < count; ++p) part.insert(part.end(), static_cast<size_t>(each), next++);
  });
  return part;
}

void reference(const RefArgs& a) {
  const RefUpdate u(a, 2);
  const double beta1 = a.attrs.f("beta1");
  const double beta2 = a.attrs.f("beta2");
  const Outputs outputs = outputs_of(a.in(UpdatePorts::kParam).shape(), a.attrs.b("in_out"));
  const std::vector<size_t> part_of = part_of_outputs(a.attrs.s("groups"));
  const auto part = [&](size_t i) {
    return part_of[static_cast<size_t>(outputs.of_element(static_cast<int64_t>(i)))];
  };
  std::vector<double> v(a.in(UpdatePorts::kStates + kV).v.size()), sum(v.size()), n(v.size());
  for (size_t i = 0; i < u.size(); ++i) {
    sum[part(i)] += u.grad(i) * u.grad(i);
    n[part(i)] += 1;
  }
  for (size_t p = 0; p < v.size(); ++p) {
    v[p] = beta2 * u.state(kV, p) + (1 - beta2) * sum[p] / n[p];
    u.set_state(kV, p, v[p]);
  }
  for (size_t i = 0; i < u.size(); ++i) {
    const double m = beta1 * u.state(kM, i) + (1 - beta1) * u.grad(i);
    const double m_hat = m / (1 - std::pow(beta1, u.step));
    const double v_hat = v[part(i)] / (1 - std::pow(beta2, u.step));
    u.set_param(i, u.decayed(i) - u.lr * m_hat / (std::sqrt(v_hat) + a.attrs.f("eps")));
    u.set_state(kM, i, m);
  }
}

std::vector<Sample> samples() {
  const auto sample = [](const UpdateSample& s, const char* groups, int64_t parts,
                         bool in_out = false, Dtype state = Dtype::f32) {
    return update_sample(
        s, {s.like_param(state, Fill::normal(0.1)), {{Dtype::f32, {parts}}, Fill::constant(0.4)}},
        {{"beta1", 0.9},
         {"beta2", 0.95},
         {"eps", 1e-8},
         {"weight_decay", 0.1},
         {"groups", groups},
         {"in_out", in_out}});
  };
  constexpr Dtype bf16 = Dtype::bf16, f16 = Dtype::f16;
  return {
      sample({.name = "a vector", .shape = {37}, .step = 1}, "1x37", 1),
      sample({.name = "rows in groups", .shape = {10, 7}, .scale = 0.25}, "2x3,4x1", 6),
      sample({.name = "columns in groups", .shape = {7, 10}}, "2x3,4x1", 6, true),
      sample({.name = "long rows", .shape = {3, 2500}}, "3x1", 3),
      sample({.name = "many columns", .shape = {9, 1025}}, "5x205", 5, true),
      sample({.name = "16-bit state", .shape = {8, 9}, .grad = f16}, "2x4", 2, false, bf16),
      sample({.name = "no master", .shape = {8, 9}, .param = bf16, .grad = bf16}, "9x1", 9, true,
             bf16),
      sample({.name = "f16 and no master", .shape = {8, 9}, .param = f16, .grad = f16}, "2x4", 2)};
}

}  // namespace

const OpDef adam_mini_def{
    .kind = "adam_mini",
    .inputs = {"param", "grad", "m", "v", "lr", "step", "scale", optional("seed")},
    .outputs = {"param", "m", "v"},
    .infer = infer,
    .cost = cost,
    .alias = update_aliases(3),
    .random = true,
    .kernels =
        float_kernels(adam_mini_cpu, {.run = SNUG_CUDA_KERNEL(adam_mini_cuda), .predicated = true}),
    .reference = reference,
    .samples = samples,
};
const OpDef adam_mini_master_def = on_master<adam_mini_def>("adam_mini_master");

std::string adam_mini_groups(const Type& type, const Param& param) {
  const int64_t outputs = outputs_of(type.shape, param.in_out).count;
  switch (param.role) {
    case Role::embedding:
    case Role::head:
    case Role::position:
      return "";
    case Role::none:
    case Role::norm:
    case Role::bias:
      return fmt::format("1x{}", outputs);
    case Role::matrix:
      break;
  }
  const int64_t shared = param.heads - param.value_heads;  // heads of queries and keys
  if (shared <= 0) return fmt::format("{}x1", outputs);
  const int64_t head = outputs / param.heads;
  const std::string per_head = fmt::format("{}x{}", shared, head);
  return param.value_heads == 0 ? per_head
                                : fmt::format("{},{}x1", per_head, param.value_heads * head);
}

int64_t adam_mini_parts(std::string_view groups) {
  int64_t parts = 0;
  for_groups(groups, [&](int64_t count, int64_t) { parts += count; });
  return parts;
}

}  // namespace snug::ops

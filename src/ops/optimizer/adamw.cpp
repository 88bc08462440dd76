#include "ops/optimizer/adamw.h"

#include <cmath>

#include "kernels/float_kernels.h"
#include "ops/optimizer/master_update.h"
#include "ops/optimizer/optimizer_cpu.h"
#include "ops/optimizer/optimizer_cuda.h"

namespace snug::ops {
namespace {

enum State : size_t { kM, kV };

std::vector<Type> infer(const OpView& op) {
  for (size_t state : {kM, kV}) require_moment(op, UpdatePorts::kStates + state);
  const Type &m = op.in(UpdatePorts::kStates + kM), &v = op.in(UpdatePorts::kStates + kV);
  if (m != v) op.require(false, "m is {}, but v {}", m.text(), v.text());
  return infer_update(op);
}

Cost cost(const OpView& op, std::span<const Type> outputs, Backend) {
  return update_cost(op, outputs, 14);
}

void reference(const RefArgs& a) {
  const RefUpdate u(a, 2);
  const double beta1 = a.attrs.f("beta1");
  const double beta2 = a.attrs.f("beta2");
  for (size_t i = 0; i < u.size(); ++i) {
    const double g = u.grad(i);
    const double m = beta1 * u.state(kM, i) + (1 - beta1) * g;
    const double v = beta2 * u.state(kV, i) + (1 - beta2) * g * g;
    const double m_hat = m / (1 - std::pow(beta1, u.step));
    const double v_hat = v / (1 - std::pow(beta2, u.step));
    u.set_param(i, u.decayed(i) - u.lr * m_hat / (std::sqrt(v_hat) + a.attrs.f("eps")));
    u.set_state(kM, i, m);
    u.set_state(kV, i, v);
  }
}

std::vector<Sample> samples() {
  const auto sample = [](const UpdateSample& s, double weight_decay, Dtype state = Dtype::f32) {
    return update_sample(
        s, {s.like_param(state, Fill::normal(0.1)), s.like_param(state, squares_of_grad())},
        {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", weight_decay}});
  };
  constexpr Dtype bf16 = Dtype::bf16, f16 = Dtype::f16;
  return {sample({.name = "first step", .shape = {5}, .step = 1}, 0),
          sample({.name = "decay", .shape = {37, 3}}, 0.1),
          sample({.name = "clipped, over a block", .shape = {2, 4099}, .step = 1000, .scale = 0.25},
                 0.01),
          sample({.name = "a 16-bit gradient", .shape = {7, 9}, .grad = f16}, 0.1),
          sample({.name = "16-bit state", .shape = {7, 9}, .grad = bf16}, 0.1, bf16),
          sample({.name = "bf16 and no master", .shape = {7, 9}, .param = bf16, .grad = bf16}, 0.1,
                 bf16),
          sample({.name = "f16 and no master", .shape = {7, 9}, .param = f16}, 0.1),
          sample({.name = "a slice", .shape = {70}, .param = bf16, .grad = bf16, .first = 4096},
                 0.1, bf16)};
}

}  // namespace

const OpDef adamw_def{
    .kind = "adamw",
    .inputs = {"param", "grad", "m", "v", "lr", "step", "scale", optional("seed")},
    .outputs = {"param", "m", "v"},
    .infer = infer,
    .cost = cost,
    .alias = update_aliases(3),
    .splits = update_splits(3),
    .random = true,
    .kernels = float_kernels(adamw_cpu, {.run = SNUG_CUDA_KERNEL(adamw_cuda),
                                         .predicated = true,
                                         .run_many = SNUG_CUDA_KERNEL(adamw_many_cuda)}),
    .reference = reference,
    .samples = samples,
};
const OpDef adamw_master_def = on_master<adamw_def>("adamw_master");

}  // namespace snug::ops

#include "ops/optimizer/lion.h"

#include "kernels/float_kernels.h"
#include "ops/optimizer/master_update.h"
#include "ops/optimizer/optimizer_cpu.h"
#include "ops/optimizer/optimizer_cuda.h"

namespace snug::ops {
namespace {

std::vector<Type> infer(const OpView& op) {
  require_moment(op, UpdatePorts::kStates);
  return infer_update(op);
}

Cost cost(const OpView& op, std::span<const Type> outputs, Backend) {
  return update_cost(op, outputs, 10);
}

void reference(const RefArgs& a) {
  const RefUpdate u(a, 1);
  const double beta1 = a.attrs.f("beta1");
  const double beta2 = a.attrs.f("beta2");
  for (size_t i = 0; i < u.size(); ++i) {
    const double along = beta1 * u.state(0, i) + (1 - beta1) * u.grad(i);
    const double sign = along > 0 ? 1 : along < 0 ? -1 : 0;
    u.set_param(i, u.decayed(i) - u.lr * sign);
    u.set_state(0, i, beta2 * u.state(0, i) + (1 - beta2) * u.grad(i));
  }
}

std::vector<Sample> samples() {
  const auto sample = [](const UpdateSample& s, Dtype state = Dtype::f32) {
    return update_sample(s, {s.like_param(state, Fill::normal(0.1))},
                         {{"beta1", 0.9}, {"beta2", 0.99}, {"weight_decay", 0.3}});
  };
  constexpr Dtype bf16 = Dtype::bf16, f16 = Dtype::f16;
  return {sample({.name = "plain", .shape = {37, 3}}),
          sample({.name = "over a block", .shape = {8195}, .scale = 0.25}),
          sample({.name = "16-bit state", .shape = {7, 9}, .grad = f16}, bf16),
          sample({.name = "no master", .shape = {7, 9}, .param = bf16, .grad = bf16}, bf16)};
}

}  // namespace

const OpDef lion_def{
    .kind = "lion",
    .inputs = {"param", "grad", "m", "lr", "step", "scale", optional("seed")},
    .outputs = {"param", "m"},
    .infer = infer,
    .cost = cost,
    .alias = update_aliases(2),
    .splits = update_splits(2),
    .random = true,
    .kernels = float_kernels(lion_cpu, {.run = SNUG_CUDA_KERNEL(lion_cuda),
                                        .predicated = true,
                                        .run_many = SNUG_CUDA_KERNEL(lion_many_cuda)}),
    .reference = reference,
    .samples = samples,
};
const OpDef lion_master_def = on_master<lion_def>("lion_master");

}  // namespace snug::ops

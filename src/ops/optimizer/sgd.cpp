#include "ops/optimizer/sgd.h"

#include "kernels/float_kernels.h"
#include "ops/optimizer/master_update.h"
#include "ops/optimizer/optimizer_cpu.h"
#include "ops/optimizer/optimizer_cuda.h"

namespace snug::ops {
namespace {

constexpr Dtype bf16 = Dtype::bf16, f16 = Dtype::f16;

Cost cost(const OpView& op, std::span<const Type> outputs, Backend) {
  return update_cost(op, outputs, 6);
}

// --- without momentum ----------------------------------------------------------------------------

void reference(const RefArgs& a) {
  const RefUpdate u(a, 0);
  for (size_t i = 0; i < u.size(); ++i) u.set_param(i, u.decayed(i) - u.lr * u.grad(i));
}

std::vector<Sample> samples() {
  const Attrs attrs{{"weight_decay", 0.1}};
  return {
      update_sample({.name = "plain", .shape = {37, 3}, .scale = 0.5}, {}, attrs),
      update_sample({.name = "over a block", .shape = {8195}}, {}, attrs),
      update_sample({.name = "no master", .shape = {7, 9}, .param = f16, .grad = f16}, {}, attrs),
      update_sample({.name = "bf16 and no master", .shape = {7, 9}, .param = bf16, .grad = bf16},
                    {}, attrs)};
}

// --- with momentum -------------------------------------------------------------------------------

std::vector<Type> infer_momentum(const OpView& op) {
  require_moment(op, UpdatePorts::kStates);
  return infer_update(op);
}

void reference_momentum(const RefArgs& a) {
  const RefUpdate u(a, 1);
  for (size_t i = 0; i < u.size(); ++i) {
    const double sum = a.attrs.f("momentum") * u.state(0, i) + u.grad(i);
    u.set_param(i, u.decayed(i) - u.lr * sum);
    u.set_state(0, i, sum);
  }
}

std::vector<Sample> samples_momentum() {
  const auto sample = [](const UpdateSample& s, Dtype state = Dtype::f32) {
    return update_sample(s, {s.like_param(state, Fill::normal(3))},
                         {{"momentum", 0.9}, {"weight_decay", 0.1}});
  };
  return {sample({.name = "plain", .shape = {37, 3}, .scale = 0.5}),
          sample({.name = "over a block", .shape = {8195}}),
          sample({.name = "16-bit state", .shape = {7, 9}, .grad = f16}, bf16),
          sample({.name = "no master", .shape = {7, 9}, .param = bf16, .grad = bf16}, bf16)};
}

}  // namespace

const OpDef sgd_def{
    .kind = "sgd",
    .inputs = {"param", "grad", "lr", "step", "scale", optional("seed")},
    .outputs = {"param"},
    .infer = infer_update,
    .cost = cost,
    .alias = update_aliases(1),
    .splits = update_splits(1),
    .random = true,
    .kernels = float_kernels(sgd_cpu, {.run = SNUG_CUDA_KERNEL(sgd_cuda),
                                       .predicated = true,
                                       .run_many = SNUG_CUDA_KERNEL(sgd_many_cuda)}),
    .reference = reference,
    .samples = samples,
};
const OpDef sgd_master_def = on_master<sgd_def>("sgd_master");

const OpDef sgd_momentum_def{
    .kind = "sgd_momentum",
    .inputs = {"param", "grad", "momentum", "lr", "step", "scale", optional("seed")},
    .outputs = {"param", "momentum"},
    .infer = infer_momentum,
    .cost = cost,
    .alias = update_aliases(2),
    .splits = update_splits(2),
    .random = true,
    .kernels =
        float_kernels(sgd_momentum_cpu, {.run = SNUG_CUDA_KERNEL(sgd_momentum_cuda),
                                         .predicated = true,
                                         .run_many = SNUG_CUDA_KERNEL(sgd_momentum_many_cuda)}),
    .reference = reference_momentum,
    .samples = samples_momentum,
};
const OpDef sgd_momentum_master_def = on_master<sgd_momentum_def>("sgd_momentum_master");

}  // namespace snug::ops

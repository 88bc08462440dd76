#include "ops/optimizer/adamw8bit.h"

#include <cmath>

#include "kernels/float_kernels.h"
#include "ops/optimizer/master_update.h"
#include "ops/optimizer/optimizer_cpu.h"
#include "ops/optimizer/optimizer_cuda.h"
#include "ops/quantize/codebook.h"
#include "ops/quantize/format.h"

namespace snug::ops {
namespace {

enum State : size_t { kM, kMScale, kV, kVScale };

std::vector<Type> infer(const OpView& op) {
  const Shape& shape = op.shape(UpdatePorts::kParam);
  for (size_t state : {kM, kV}) {
    const size_t port = UpdatePorts::kStates + state;
    op.require(op.in(port) == kDynamic8.payload_type(shape),
               "8-bit state cannot be kept in {} {}: it takes {}", op.def.inputs[port].name,
               op.in(port).text(), kDynamic8.payload_type(shape).text());
    require_type(op, port + 1, kDynamic8.scales_type(shape));
  }
  return infer_update(op);
}

// AdamW's own, and five for each way between a code and its number.
Cost cost(const OpView& op, std::span<const Type> outputs, Backend) {
  return update_cost(op, outputs, 14 + 20);
}

// The position of x in [-1, 1] among the codes, found by plain search. Halfway between two codes is
// halfway between their values, so that rounding gives the nearest.
double place(const Codebook& book, double x) {
  const auto& values = book.values;
  const auto next = std::upper_bound(values.begin() + 1, values.end() - 1, x);
  const double low = static_cast<double>(next[-1]), high = static_cast<double>(next[0]);
  const auto code = static_cast<double>(next - values.begin() - 1);
  return std::clamp(code + (x - low) / (high - low), 0.0, 255.0);
}

// One state of a block from element `first` on, as places among the codes and a scale.
void store_block(const RefUpdate& u, State state, size_t first, const std::vector<double>& x) {
  double largest = 0;
  for (double v : x) largest = std::max(largest, std::abs(v));
  u.set_state(state + 1, first / kDynamic8.block, largest);
  for (size_t i = 0; i < x.size(); ++i) {
    const double unit = largest > 0 ? x[i] / largest : 0;
    const double found = place(state == kM ? kSignedCodes : kUnsignedCodes, unit);
    const bool would_be_zero = state == kV && unit > 0 && found < 1;
    u.set_state(state, first + i, would_be_zero ? 1 : found);
  }
}

// One block of the format.
void reference_block(const RefUpdate& u, const Attrs& attrs, size_t block) {
  const size_t first = block * kDynamic8.block;
  const size_t end = std::min<size_t>(u.size(), first + kDynamic8.block);
  const double beta1 = attrs.f("beta1");
  const double beta2 = attrs.f("beta2");
  std::vector<double> m, v;
  for (size_t i = first; i < end; ++i) {
    const double g = u.grad(i);
    const auto value = [&](const Codebook& book, size_t state) {
      return static_cast<double>(book.values[static_cast<size_t>(u.state(state, i))]) *
             u.state(state + 1, block);
    };
    m.push_back(beta1 * value(kSignedCodes, kM) + (1 - beta1) * g);
    v.push_back(beta2 * value(kUnsignedCodes, kV) + (1 - beta2) * g * g);
    const double root = std::sqrt(v.back() / (1 - std::pow(beta2, u.step)));
    u.set_param(i, u.decayed(i) -
                       u.lr * m.back() / (1 - std::pow(beta1, u.step)) / (root + attrs.f("eps")));
  }
  store_block(u, kM, first, m);
  store_block(u, kV, first, v);
}

void reference(const RefArgs& a) {
  const RefUpdate u(a, 4);
  const size_t blocks = a.out(1 + kMScale).v.size();
  for (size_t block = 0; block < blocks; ++block) reference_block(u, a.attrs, block);
}

std::vector<Sample> samples() {
  const auto sample = [](const UpdateSample& s, double state_scale) {
    const Type scales = kDynamic8.scales_type(s.shape);
    return update_sample(s,
                         {s.like_param(kDynamic8.payload, Fill::integers(256)),
                          {scales, Fill::constant(0.3 * state_scale)},
                          s.like_param(kDynamic8.payload, Fill::integers(256)),
                          {scales, Fill::constant(0.8 * state_scale)}},
                         {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", 0.1}});
  };
  constexpr Dtype bf16 = Dtype::bf16, f16 = Dtype::f16;
  return {sample({.name = "first step", .shape = {3, 100}, .step = 1}, 0),
          sample({.name = "whole blocks", .shape = {2, 256}, .scale = 0.25}, 1),
          sample({.name = "more than a thread's share", .shape = {8195}}, 1),
          sample({.name = "a 16-bit gradient", .shape = {300}, .grad = f16}, 1),
          sample({.name = "no master", .shape = {5, 60}, .param = bf16, .grad = bf16}, 1),
          sample({.name = "f16 and no master", .shape = {7, 40}, .param = f16, .grad = f16}, 1),
          sample({.name = "a slice", .shape = {300}, .param = bf16, .first = 1024}, 1)};
}

}  // namespace

const OpDef adamw8bit_def{
    .kind = "adamw8bit",
    .inputs = {"param", "grad", "m", "m_scale", "v", "v_scale", "lr", "step", "scale",
               optional("seed")},
    .outputs = {"param", "m", "m_scale", "v", "v_scale"},
    .infer = infer,
    .cost = cost,
    .alias = update_aliases(5),
    .random = true,
    .kernels =
        float_kernels(adamw8bit_cpu, {.run = SNUG_CUDA_KERNEL(adamw8bit_cuda), .predicated = true}),
    .reference = reference,
    .samples = samples,
};
const OpDef adamw8bit_master_def = on_master<adamw8bit_def>("adamw8bit_master");

}  // namespace snug::ops

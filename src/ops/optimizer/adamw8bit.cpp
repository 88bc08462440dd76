#include "ops/optimizer/adamw8bit.h"

#include <cmath>

#include "base/units.h"
#include "ops/float_kernels.h"
#include "ops/optimizer/blockwise.h"
#include "ops/optimizer/optimizer_cpu.h"
#include "ops/optimizer/update_op.h"

namespace snug::ops {
namespace {

enum State : size_t { kM, kMScale, kV, kVScale };

Type scales_of(const Shape& shape) {
  return {Dtype::f32, {ceil_div(shape.elements(), kCodeBlock)}};
}

std::vector<Type> infer(const OpView& op) {
  const Shape& shape = op.shape(UpdatePorts::kParam);
  for (size_t state : {kM, kV}) {
    const size_t port = UpdatePorts::kStates + state;
    op.require(op.in(port) == Type{Dtype::u8, shape},
               "8-bit state cannot be kept in {} {}: it takes u8{}", op.def.inputs[port].name,
               op.in(port).text(), shape.text());
    require_type(op, port + 1, scales_of(shape));
  }
  return infer_update(op);
}

// AdamW's own, and eight comparisons for each code.
Cost cost(const OpView& op, std::span<const Type>, Backend) { return update_cost(op, 14 + 20); }

// One block of 256 elements from `first` on.
void reference_block(const RefUpdate& u, const Attrs& attrs, size_t block) {
  const size_t first = block * kCodeBlock;
  const size_t end = std::min(u.size(), first + kCodeBlock);
  const double beta1 = attrs.f("beta1");
  const double beta2 = attrs.f("beta2");
  std::vector<float> m, v;
  for (size_t i = first; i < end; ++i) {
    const double g = u.grad(i);
    const auto value = [&](const Codebook& book, size_t state) {
      return static_cast<double>(book.values[static_cast<size_t>(u.state(state, i))]) *
             u.state(state + 1, block);
    };
    const double new_m = beta1 * value(kSignedCodes, kM) + (1 - beta1) * g;
    const double new_v = beta2 * value(kUnsignedCodes, kV) + (1 - beta2) * g * g;
    const double root = std::sqrt(new_v / (1 - std::pow(beta2, u.step)));
    u.set_param(
        i, u.decayed(i) - u.lr * new_m / (1 - std::pow(beta1, u.step)) / (root + attrs.f("eps")));
    m.push_back(static_cast<float>(new_m));
    v.push_back(static_cast<float>(new_v));
  }
  const auto n = static_cast<int64_t>(m.size());
  std::vector<uint8_t> m_codes(m.size()), v_codes(m.size());
  const float m_scale = quantise(kSignedCodes, n, m.data(), m_codes.data());
  const float v_scale = quantise_divisor(n, v.data(), v_codes.data());
  u.set_state(kMScale, block, static_cast<double>(m_scale));
  u.set_state(kVScale, block, static_cast<double>(v_scale));
  for (size_t i = first; i < end; ++i) {
    u.set_state(kM, i, m_codes[i - first]);
    u.set_state(kV, i, v_codes[i - first]);
  }
}

void reference(const RefArgs& a) {
  const RefUpdate u(a);
  const size_t blocks = a.out(1 + kMScale).v.size();
  for (size_t block = 0; block < blocks; ++block) reference_block(u, a.attrs, block);
}

std::vector<Sample> samples() {
  const auto sample = [](const UpdateSample& s, double state_scale) {
    const Type scales = scales_of(s.shape);
    return update_sample(s,
                         {s.like_param(Dtype::u8, Fill::integers(256)),
                          {scales, Fill::constant(0.3 * state_scale)},
                          s.like_param(Dtype::u8, Fill::integers(256)),
                          {scales, Fill::constant(0.8 * state_scale)}},
                         {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", 0.1}});
  };
  constexpr Dtype bf16 = Dtype::bf16, f16 = Dtype::f16;
  return {sample({.name = "first step", .shape = {3, 100}, .step = 1}, 0),
          sample({.name = "whole blocks", .shape = {2, 256}, .scale = 0.25}, 1),
          sample({.name = "a 16-bit gradient", .shape = {300}, .grad = f16}, 1),
          sample({.name = "no master", .shape = {5, 60}, .param = bf16, .grad = bf16}, 1)};
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
    .kernels = float_kernels(adamw8bit_cpu),
    .reference = reference,
    .samples = samples,
};

}  // namespace snug::ops

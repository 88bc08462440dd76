#include "ops/optimizer/adamw.h"

#include <cmath>

#include "base/units.h"
#include "ops/optimizer/optimizer_cpu.h"

namespace snug::ops {
namespace {

enum In : size_t { kParam, kGrad, kM, kV, kLr, kStep, kScale };

std::vector<Type> infer(const OpView& op) {
  const auto require_type = [&](size_t port, const Type& want) {
    op.require(op.in(port) == want, "{} is {}, not {}", op.def.inputs[port].name,
               op.in(port).text(), want.text());
  };
  for (size_t port : {kGrad, kM, kV}) require_type(port, op.in(kParam));
  require_type(kLr, {Dtype::f32, {}});
  require_type(kStep, {Dtype::i64, {}});
  require_type(kScale, {Dtype::f32, {}});
  return {op.in(kParam), op.in(kM), op.in(kV)};
}

Cost cost(const OpView& op, std::span<const Type>, Backend) {
  return {.flops = checked_mul(14, op.shape(kParam).elements(), op.name)};
}

void reference(const RefArgs& a) {
  const double beta1 = a.attrs.f("beta1");
  const double beta2 = a.attrs.f("beta2");
  const double lr = a.in(kLr).v[0];
  const double step = a.in(kStep).v[0];
  for (size_t i = 0; i < a.in(kParam).v.size(); ++i) {
    const double g = a.in(kGrad).v[i] * a.in(kScale).v[0];
    const double m = beta1 * a.in(kM).v[i] + (1 - beta1) * g;
    const double v = beta2 * a.in(kV).v[i] + (1 - beta2) * g * g;
    const double m_hat = m / (1 - std::pow(beta1, step));
    const double v_hat = v / (1 - std::pow(beta2, step));
    const double decayed = a.in(kParam).v[i] * (1 - lr * a.attrs.f("weight_decay"));
    a.out(0).v[i] = decayed - lr * m_hat / (std::sqrt(v_hat) + a.attrs.f("eps"));
    a.out(1).v[i] = m;
    a.out(2).v[i] = v;
  }
}

Sample sample(const char* name, Shape shape, int64_t step, double weight_decay, double scale) {
  const Type type{Dtype::f32, shape};
  const auto squares_of_grad = [](RefTensor& self, std::span<const RefTensor> earlier) {
    for (size_t i = 0; i < self.v.size(); ++i)
      self.v[i] = 0.3 * earlier[kGrad].v[i] * earlier[kGrad].v[i];
  };
  return {name,
          {{type},
           {type},
           {type, Fill::normal(0.1)},
           {type, {.compute = squares_of_grad}},
           {{Dtype::f32, {}}, Fill::constant(1e-2)},
           {{Dtype::i64, {}}, Fill::constant(static_cast<double>(step))},
           {{Dtype::f32, {}}, Fill::constant(scale)}},
          {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", weight_decay}}};
}

std::vector<Sample> samples() {
  return {sample("first step", {5}, 1, 0, 1), sample("decay", {37, 3}, 3, 0.1, 1),
          sample("clipped, over a block", {2, 4099}, 1000, 0.01, 0.25)};
}

}  // namespace

const OpDef adamw_def{
    .kind = "adamw",
    .inputs = {"param", "grad", "m", "v", "lr", "step", "scale"},
    .outputs = {"param", "m", "v"},
    .infer = infer,
    .cost = cost,
    .alias = {{.output = 0, .input = kParam, .must = true},
              {.output = 1, .input = kM, .must = true},
              {.output = 2, .input = kV, .must = true}},
    .splits = {{"rows", {0, 0, 0, 0, Split::kWhole, Split::kWhole, Split::kWhole}, {0, 0, 0}}},
    .kernels = {{Backend::cpu, Dtype::f32, adamw_cpu}},
    .reference = reference,
    .samples = samples,
};

void adamw(Builder& b, std::string_view name, const AdamW& p, ValueId predicate) {
  b.emit(
      adamw_def, name, {p.param, p.grad, p.m, p.v, p.lr, p.step, p.scale},
      {{"beta1", p.beta1}, {"beta2", p.beta2}, {"eps", p.eps}, {"weight_decay", p.weight_decay}});
  b.last().predicate = predicate;
}

}  // namespace snug::ops

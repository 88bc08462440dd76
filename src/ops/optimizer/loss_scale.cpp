#include "ops/optimizer/loss_scale.h"

#include "kernels/float_kernels.h"
#include "ops/infer.h"
#include "ops/optimizer/optimizer_cpu.h"
#include "ops/optimizer/optimizer_cuda.h"

namespace snug::ops {
namespace {

enum In : size_t { kLossScale, kClean, kFinite };

std::vector<Type> infer(const OpView& op) {
  require_type(op, kLossScale, {Dtype::f32, {}});
  require_type(op, kClean, {Dtype::i64, {}});
  require_type(op, kFinite, {Dtype::i32, {}});
  const double growth = op.attrs.f("growth"), backoff = op.attrs.f("backoff");
  const double floor = op.attrs.f("floor");
  op.require(growth >= 1, "growth {} would shrink the loss scale", growth);
  op.require(backoff > 0 && backoff <= 1, "back-off {} is not in (0, 1]", backoff);
  op.require(op.attrs.i("interval") >= 1, "an interval of {} steps is not positive",
             op.attrs.i("interval"));
  op.require(floor > 0 && floor <= kMaxLossScale, "floor {} is not in (0, {}]", floor,
             kMaxLossScale);
  return {op.in(kLossScale), op.in(kClean)};
}

struct State {
  double loss_scale;
  int64_t clean;
};

State next(const Attrs& attrs, State now, bool finite) {
  if (!finite) return {std::max(attrs.f("floor"), now.loss_scale * attrs.f("backoff")), 0};
  if (now.clean + 1 < attrs.i("interval")) return {now.loss_scale, now.clean + 1};
  return {std::min(kMaxLossScale, now.loss_scale * attrs.f("growth")), 0};
}

void reference(const RefArgs& a) {
  const State now{a.in(kLossScale).v[0], static_cast<int64_t>(a.in(kClean).v[0])};
  const State after = next(a.attrs, now, a.in(kFinite).v[0] != 0);
  a.out(kLossScale).v[0] = after.loss_scale;
  a.out(kClean).v[0] = static_cast<double>(after.clean);
}

std::vector<Sample> samples() {
  const auto sample = [](const char* name, double loss_scale, double clean, double finite) {
    return Sample{name,
                  {{{Dtype::f32, {}}, Fill::constant(loss_scale)},
                   {{Dtype::i64, {}}, Fill::constant(clean)},
                   {{Dtype::i32, {}}, Fill::constant(finite)}},
                  {{"growth", 2.0}, {"backoff", 0.5}, {"interval", 1000}, {"floor", 1.0}}};
  };
  return {sample("clean", 1024, 12, 1), sample("overflow", 1024, 12, 0),
          sample("grows", 1024, 999, 1), sample("at the floor", 1, 12, 0),
          sample("at the cap", kMaxLossScale, 999, 1)};
}

}  // namespace

void adjust_loss_scale_cpu(const KernelArgs& a) {
  const State now{static_cast<double>(*a.in<float>(kLossScale)), *a.in<int64_t>(kClean)};
  const State after = next(a.attrs, now, *a.in<int32_t>(kFinite) != 0);
  *a.out<float>(kLossScale) = static_cast<float>(after.loss_scale);
  *a.out<int64_t>(kClean) = after.clean;
}

const OpDef adjust_loss_scale_def{
    .kind = "adjust_loss_scale",
    .inputs = {"loss_scale", "clean", "finite"},
    .outputs = {"loss_scale", "clean"},
    .infer = infer,
    .alias = {{.output = 0, .input = kLossScale, .must = true},
              {.output = 1, .input = kClean, .must = true}},
    .kernels = kernels_for({Dtype::f32}, adjust_loss_scale_cpu,
                           {.run = SNUG_CUDA_KERNEL(adjust_loss_scale_cuda)}),
    .reference = reference,
    .samples = samples,
};

NextLossScale adjust_loss_scale(Builder& b, std::string_view name, const AdjustLossScale& p) {
  const auto out = b.emit(
      adjust_loss_scale_def, name, {p.loss_scale, p.clean, p.finite},
      {{"growth", p.growth}, {"backoff", p.backoff}, {"interval", p.interval}, {"floor", p.floor}});
  return {.loss_scale = out[0], .clean = out[1]};
}

}  // namespace snug::ops

// What the facts of all norms share. A norm is (x, weight, ...) -> (y, statistics...); its residual
// form is (x, delta, weight, ...) -> (h, y, statistics...); both have one backward op,
// (x, weight, statistics..., dy, [dx_sum], [dweight_sum], ...) -> (dx, dweight, ...), which in
// another form takes the bias, where there is one, and recomputes y.
#pragma once

#include "ir/builder.h"
#include "ir/visit_dtype.h"
#include "ops/norm/norm_ports.h"

namespace snug::ops {

std::vector<Type> infer_norm(const OpView& op);
std::vector<Type> infer_norm_grad(const OpView& op);  // with or without y

// The attribute "offset": what is added to the weights (Gemma's are stored around 0), if anything.
inline Attrs weight_offset(const Attrs& attrs) {
  return attrs.has("offset") ? Attrs{{"offset", attrs.f("offset")}} : Attrs{};
}

// One dx serves x and delta alike; what flows into h rides along as dx_sum, so that no add is
// emitted.
template <bool kResidual>
void grad_norm(GradContext& g, const OpDef& grad_def, size_t statistics) {
  using P = NormPorts<kResidual>;
  const auto set_dx = [&](ValueId dx) {
    g.set(P::x, dx);
    if (kResidual) g.set(P::delta, dx);
  };
  const ValueId dh = kResidual ? g.dout(P::h) : ValueId{};
  if (!g.dout(P::y).valid()) return set_dx(dh);

  std::vector<ValueId> inputs{kResidual ? g.out(P::h) : g.in(P::x), g.in(P::weight)};
  for (size_t i = 1; i <= statistics; ++i) inputs.push_back(g.out(P::y + i));
  inputs.insert(inputs.end(), {g.dout(P::y), dh});
  const auto d = g.emit(grad_def, std::move(inputs), weight_offset(g.attrs()));
  set_dx(d[0]);
  for (size_t i = 1; i < d.size(); ++i) g.set(P::weight + i - 1, d[i]);
}

// Inputs of a sample: x (and delta) of one shape, then `params` vectors of its last axis.
template <bool kResidual>
Sample norm_sample(const char* name, const Shape& x, size_t params, double eps, double offset = 0) {
  std::vector<SampleInput> inputs(kResidual ? 2 : 1, {{Dtype::f32, x}});
  inputs.insert(inputs.end(), params, {{Dtype::f32, {x.back()}}});
  Attrs attrs{{"eps", eps}};
  if (offset != 0) attrs.set("offset", offset);
  return {name, std::move(inputs), std::move(attrs)};
}

// Samples of a backward op that recomputes y, in every float type: its statistics are f32 and
// agree with x.
std::vector<Sample> recompute_samples(const OpDef& def, bool centered);

// Scratch of a norm's backward op on either backend.
int64_t norm_grad_scratch(const OpView& op, Backend backend, int64_t params);

// A sum as the norm reads it back from two bytes. f32 keeps its digits: finite differences need
// them.
inline double as_stored(double v, Dtype dtype) {
  if (size_of(dtype) > 2) return v;
  return visit_dtype(
      dtype, [v](auto zero) { return static_cast<double>(static_cast<decltype(zero)>(v)); });
}

// h = x + delta, or x itself: what a reference normalises.
template <bool kResidual>
std::vector<double> reference_normed(const RefArgs& a) {
  using P = NormPorts<kResidual>;
  std::vector<double> h = a.in(P::x).v;
  if constexpr (kResidual) {
    const Dtype dtype = a.out(P::h).type.dtype;
    for (size_t i = 0; i < h.size(); ++i) h[i] = as_stored(h[i] + a.in(P::delta).v[i], dtype);
    a.out(P::h).v = h;
  }
  return h;
}

}  // namespace snug::ops

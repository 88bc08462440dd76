#include "ops/optimizer/update_op.h"

#include "base/units.h"
#include "ir/visit_dtype.h"
#include "ops/optimizer/stochastic.h"
#include "ops/random.h"

namespace snug::ops {
namespace {

constexpr size_t kParam = UpdatePorts::kParam, kGrad = UpdatePorts::kGrad;

void require_seed(const OpView& op, size_t port) {
  op.require(op.has(port) && op.attrs.has("key"),
             "results of 2 bytes are rounded with noise, which needs a seed and a key");
  require_type(op, port, {Dtype::i64, {}});
}

bool writes_weight(const OpDef& def) { return def.outputs.back().name == kWeightPort; }
size_t weight_input(const OpDef& def) { return UpdatePorts::input_of(def.outputs.size() - 1); }

// The next version of its input or, without one, as the attribute of its name says.
Type weight_type(const OpView& op) {
  if (op.has(weight_input(op.def))) return op.in(weight_input(op.def));
  const auto dtype = parse_dtype(op.attrs.s(kWeightPort));
  op.require(dtype && is_half(*dtype), "'{}' is no type of a weight", op.attrs.s(kWeightPort));
  return {*dtype, op.shape(kParam)};
}

void require_weight(const OpView& op) {
  const Type type = weight_type(op);
  const Dtype weight = type.dtype, grad = op.in(kGrad).dtype;
  if (op.in(kParam).dtype != Dtype::f32)
    op.require(false, "a master is in f32, not {}", op.in(kParam).text());
  if (op.has(weight_input(op.def)))
    require_type(op, weight_input(op.def),
                 {is_half(weight) ? weight : Dtype::bf16, op.shape(kParam)});
  op.require(grad == weight || grad == Dtype::f32, "a gradient of {} is none of a weight of {}",
             name_of(grad), name_of(weight));
}

}  // namespace

std::vector<Alias> update_aliases(size_t outputs) {
  std::vector<Alias> aliases;
  for (size_t o = 0; o < outputs; ++o) {
    const auto input = static_cast<int>(UpdatePorts::input_of(o));
    aliases.push_back({.output = static_cast<int>(o), .input = input, .must = true});
  }
  return aliases;
}

std::vector<Split> update_splits(size_t outputs) {
  constexpr size_t kScalars = 4;  // lr, step, scale, seed
  Split rows{"rows", std::vector<int>(outputs + 1, 0), std::vector<int>(outputs, 0)};
  rows.inputs.insert(rows.inputs.end(), kScalars, Split::kWhole);
  return {std::move(rows)};
}

void require_moment(const OpView& op, size_t port) {
  const Dtype dtype = op.in(port).dtype == Dtype::bf16 ? Dtype::bf16 : Dtype::f32;
  require_type(op, port, {dtype, op.shape(kParam)});
}

std::vector<Type> infer_update(const OpView& op) {
  const UpdatePorts ports(op.def.outputs.size());
  if (!is_model_float(op.in(kParam).dtype))  // otherwise no text is made
    op.require(false, "cannot update a parameter of type {}", op.in(kParam).text());
  const Dtype grad = op.in(kGrad).dtype;
  require_type(op, kGrad, {is_model_float(grad) ? grad : Dtype::f32, op.shape(kParam)});
  const Dtype param = op.in(kParam).dtype;
  op.require(grad == param || grad == Dtype::f32 || param == Dtype::f32,
             "a gradient of {} cannot update a parameter of {}", name_of(grad), name_of(param));
  require_type(op, ports.lr, {Dtype::f32, {}});
  require_type(op, ports.step, {Dtype::i64, {}});
  require_type(op, ports.scale, {Dtype::f32, {}});
  std::vector<Type> outputs;
  const size_t states = op.def.outputs.size() - (writes_weight(op.def) ? 1 : 0);
  for (size_t o = 0; o < states; ++o) outputs.push_back(op.in(UpdatePorts::input_of(o)));
  if (writes_weight(op.def)) outputs.push_back(weight_type(op));
  std::span<const Type> with_noise = outputs;
  if (writes_weight(op.def)) {
    require_weight(op);
    with_noise = with_noise.first(with_noise.size() - 1);
  }
  const bool rounds = std::ranges::any_of(with_noise, is_half, &Type::dtype);
  if (rounds || op.has(ports.seed)) require_seed(op, ports.seed);
  return outputs;
}

Cost update_cost(const OpView& op, std::span<const Type> outputs, int64_t flops_per_element) {
  Cost cost{.flops = checked_mul(flops_per_element, op.shape(kParam).elements(), op.name)};
  if (!writes_weight(op.def)) return cost;
  for (size_t i = 0; i < op.size(); ++i) {
    if (op.has(i) && i != weight_input(op.def)) cost.bytes_read += op.in(i).bytes();
  }
  for (const Type& output : outputs) cost.bytes_written += output.bytes();
  return cost;
}

RefUpdate::RefUpdate(const RefArgs& a, size_t states)
    : a_(a), weight_(weight_output(states, a.outputs.size())) {
  const UpdatePorts ports(a.outputs.size());
  const auto integer = [&](size_t port) { return static_cast<int64_t>(a.in(port).v[0]); };
  lr = a.in(ports.lr).v[0];
  step = a.in(ports.step).v[0];
  scale_ = a.in(ports.scale).v[0];
  keep_ = 1 - lr * a.attrs.f("weight_decay");
  first_ = static_cast<uint64_t>(a.attrs.i("first", 0));
  if (a.has(ports.seed)) key_ = op_key(integer(ports.seed), integer(ports.step), a.attrs);
}

void RefUpdate::set(size_t output, size_t i, double v) const {
  RefTensor& to = a_.out(output);
  const auto noise = [&] { return rounding_noise(key_, output, first_ + i); };
  if (to.type.dtype == Dtype::bf16) v = round_with<Bf16>(static_cast<float>(v), noise());
  if (to.type.dtype == Dtype::f16) v = round_with<F16>(static_cast<float>(v), noise());
  to.v[i] = v;
}

Sample update_sample(const UpdateSample& s, std::vector<SampleInput> states, Attrs attrs) {
  const auto scalar = [](Dtype dtype, double v) {
    return SampleInput{{dtype, {}}, Fill::constant(v)};
  };
  Sample sample{s.name, {s.like_param(s.param, {}), s.like_param(s.grad, {})}, std::move(attrs)};
  bool rounds = is_half(s.param);
  for (SampleInput& state : states) {
    rounds = rounds || is_half(state.type.dtype);
    sample.inputs.push_back(std::move(state));
  }
  sample.inputs.push_back(scalar(Dtype::f32, 1e-2));
  sample.inputs.push_back(scalar(Dtype::i64, static_cast<double>(s.step)));
  sample.inputs.push_back(scalar(Dtype::f32, s.scale));
  if (rounds) {
    sample.inputs.push_back(scalar(Dtype::i64, 11));
    sample.attrs.set("key", "update.w");
    if (s.first > 0) sample.attrs.set("first", s.first);
  }
  return sample;
}

Fill squares_of_grad() {
  return {.compute = [](RefTensor& self, std::span<const RefTensor> earlier) {
    const std::vector<double>& grad = earlier[kGrad].v;
    for (size_t i = 0; i < self.v.size(); ++i) self.v[i] = 0.3 * grad[i] * grad[i];
  }};
}

}  // namespace snug::ops

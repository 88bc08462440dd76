#include "ops/testing/op_case.h"

#include <cmath>

#include "base/rng.h"
#include "ir/builder.h"
#include "ir/visit_dtype.h"
#include "ops/testing/tensor_bytes.h"

namespace snug {
namespace {

double rounded(double v, Dtype dtype) {
  if (!is_float(dtype)) v = std::nearbyint(v);
  return visit_dtype(
      dtype, [v](auto zero) { return static_cast<double>(static_cast<decltype(zero)>(v)); });
}

}  // namespace

RefTensor rounded(RefTensor t) {
#pragma omp parallel for if (t.v.size() > kSeveralThreads)
  for (double& v : t.v) v = rounded(v, t.type.dtype);
  return t;
}

RefTensor make_input(const SampleInput& spec, std::string_view port,
                     std::span<const RefTensor> earlier) {
  RefTensor t{spec.type, std::vector<double>(static_cast<size_t>(spec.type.shape.elements()))};
  if (spec.fill.compute) {
    spec.fill.compute(t, earlier);
  } else {
    const Key key = random_key(7, 0, hash_name(port));
#pragma omp parallel for if (t.v.size() > kSeveralThreads)
    for (size_t i = 0; i < t.v.size(); ++i) {
      switch (spec.fill.kind) {
        case Fill::Kind::normal:
          t.v[i] = spec.fill.a * normal_pair(key, i)[0];
          break;
        case Fill::Kind::integers:
          t.v[i] = std::floor(spec.fill.a * unit_float(philox(key, i)[0]));
          break;
        case Fill::Kind::constant:
          t.v[i] = spec.fill.a;
          break;
        case Fill::Kind::absent:
          break;
      }
    }
  }
  return rounded(std::move(t));
}

OpCase build_program(const OpDef& def, const Sample& sample) {
  OpCase c{.sample = sample.name};
  Builder b(c.module, "check");
  for (size_t i = 0; i < sample.inputs.size(); ++i) {
    const SampleInput& spec = sample.inputs[i];
    const std::string name =
        fmt::format("{}{}", def.port_of_input(i).name,
                    def.port_of_input(i).variadic() ? fmt::format(".{}", i) : "");
    const bool absent = spec.fill.kind == Fill::Kind::absent;
    c.input_ids.push_back(
        absent ? ValueId{} : add_shared(c.module, name, spec.type, Category::inputs, Scope::step));
  }
  c.outputs = b.emit(def, "op", c.input_ids, sample.attrs);
  c.gradients.resize(c.input_ids.size());
  c.cotangents.resize(c.outputs.size());
  if (def.grad == nullptr) return c;
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    const Type type = c.module[c.outputs[i]].type;
    if (def.outputs[i].aux() || !is_float(type.dtype)) continue;
    c.cotangents[i] = add_shared(c.module, fmt::format("d.{}", def.outputs[i].name), type,
                                 Category::inputs, Scope::step);
  }
  std::vector<bool> wanted;
  for (ValueId id : c.input_ids) wanted.push_back(id.valid() && is_float(c.module[id].type.dtype));
  b.set_phase(Phase::backward);
  GradContext g(b, c.program().ops[0], c.cotangents, wanted);
  def.grad(g);
  c.gradients = g.input_grads();
  return c;
}

OpCase build_case(const OpDef& def, const Sample& sample) {
  OpCase c = build_program(def, sample);
  const auto name = [&](ValueId id) { return id.valid() ? c.module[id].name : std::string(); };
  for (size_t i = 0; i < sample.inputs.size(); ++i) {
    const ValueId id = c.input_ids[i];
    c.inputs.push_back(make_input(sample.inputs[i], name(id), c.inputs));
    if (id.valid()) c.given.emplace_back(id, c.inputs.back());
  }
  for (ValueId id : c.cotangents) {
    if (id.valid())
      c.given.emplace_back(id, make_input({c.module[id].type, Fill::normal()}, name(id), {}));
  }
  return c;
}

RefValues start_values(const OpCase& c) {
  RefValues values(c.module.values.size());
  for (const auto& [id, tensor] : c.given) values[static_cast<size_t>(id.index)] = tensor;
  return values;
}

std::vector<RefTensor> reference_results(const OpCase& c, const Op& op, const RefValues& values) {
  std::vector<const RefTensor*> in;
  std::vector<RefTensor> results;
  std::vector<RefTensor*> out;
  for (ValueId id : op.inputs)
    in.push_back(id.valid() ? &values[static_cast<size_t>(id.index)] : nullptr);
  for (ValueId id : op.outputs) {
    const Type& type = c.module[id].type;
    results.push_back({type, std::vector<double>(static_cast<size_t>(type.shape.elements()))});
  }
  for (RefTensor& r : results) out.push_back(&r);
  op.def->reference(RefArgs{in, out, op.attrs});
  return results;
}

void run_reference(const OpCase& c, RefValues& values, size_t ops) {
  for (size_t at = 0; at < ops; ++at) {
    const Op& op = c.program().ops[at];
    std::vector<RefTensor> results = reference_results(c, op, values);
    for (size_t i = 0; i < results.size(); ++i)
      values[static_cast<size_t>(op.outputs[i].index)] = std::move(results[i]);
  }
}

}  // namespace snug

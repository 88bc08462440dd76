#include "ops/testing/op_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/rng.h"
#include "ir/builder.h"
#include "ir/visit_dtype.h"
#include "ops/testing/run_op.h"

namespace snug {
namespace {

// Tolerances by backend and dtype: |got - want| <= relative * (|want| + rms(want)).
struct Tolerance {
  Backend backend;
  Dtype dtype;
  double relative;
};
constexpr Tolerance kTolerances[] = {
    {Backend::cpu, Dtype::f64, 1e-12},
    {Backend::cpu, Dtype::f32, 5e-6},
    {Backend::cpu, Dtype::bf16, 0x1p-8},  // 8 significant bits, rounded
    {Backend::cpu, Dtype::f16, 0x1p-11},  // 11
};

double tolerance(Backend backend, Dtype dtype) {
  for (const Tolerance& t : kTolerances) {
    if (t.backend == backend && t.dtype == dtype) return t.relative;
  }
  return 0;
}

// Integers: half a unit around what the reference gives, and a little for the arithmetic before the
// rounding. Where it gives whole numbers they must be equal; a code it may give as a fraction, and
// near a tie both neighbours are right.
constexpr double kIntegerTolerance = 0.51;

double rounded(double v, Dtype dtype) {
  if (!is_float(dtype)) v = std::nearbyint(v);
  return visit_dtype(
      dtype, [v](auto zero) { return static_cast<double>(static_cast<decltype(zero)>(v)); });
}

RefTensor make_input(const SampleInput& spec, std::string_view port,
                     std::span<const RefTensor> earlier) {
  RefTensor t{spec.type, std::vector<double>(static_cast<size_t>(spec.type.shape.elements()))};
  if (spec.fill.compute) {
    spec.fill.compute(t, earlier);
  } else {
    const Key key = random_key(7, 0, hash_name(port));
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
  for (double& v : t.v) v = rounded(v, t.type.dtype);
  return t;
}

// The sample as a program: inputs, the op, cotangents for its outputs, and the backward ops that
// its `grad` emits.
struct Case {
  Module module{.name = "check"};
  std::vector<RefTensor> inputs;    // by op port; values of the module's first ids
  std::vector<ValueId> input_ids;   // by port; none: absent
  std::vector<ValueId> outputs;     // of the forward op
  std::vector<ValueId> cotangents;  // by output; none: not differentiable
  std::vector<ValueId> gradients;   // by input port; none: no gradient
  std::vector<std::pair<ValueId, RefTensor>>
      given;  // everything that exists before the program runs

  const Program& program() const { return module.programs.at(0); }
};

Case build_case(const OpDef& def, const Sample& sample) {
  Case c;
  Builder b(c.module, "check");
  for (size_t i = 0; i < sample.inputs.size(); ++i) {
    const SampleInput& spec = sample.inputs[i];
    const std::string name =
        fmt::format("{}{}", def.port_of_input(i).name,
                    def.port_of_input(i).variadic() ? fmt::format(".{}", i) : "");
    c.inputs.push_back(make_input(spec, name, c.inputs));
    if (spec.fill.kind == Fill::Kind::absent) {
      c.input_ids.emplace_back();
      continue;
    }
    c.input_ids.push_back(add_shared(c.module, name, spec.type, Category::inputs, Scope::step));
    c.given.emplace_back(c.input_ids.back(), c.inputs.back());
  }
  c.outputs = b.emit(def, "op", c.input_ids, sample.attrs);
  c.gradients.resize(c.input_ids.size());
  c.cotangents.resize(c.outputs.size());
  if (def.grad == nullptr) return c;
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    const Type type = c.module[c.outputs[i]].type;
    if (def.outputs[i].aux() || !is_float(type.dtype)) continue;
    const std::string name = fmt::format("d.{}", def.outputs[i].name);
    c.cotangents[i] = add_shared(c.module, name, type, Category::inputs, Scope::step);
    c.given.emplace_back(c.cotangents[i], make_input({type, Fill::normal()}, name, {}));
  }
  std::vector<bool> wanted;
  for (ValueId id : c.input_ids) wanted.push_back(id.valid() && is_float(c.module[id].type.dtype));
  b.set_phase(Phase::backward);
  GradContext g(b, c.program().ops[0], c.cotangents, wanted);
  def.grad(g);
  c.gradients = g.input_grads();
  return c;
}

// --- the reference interpreter
// ------------------------------------------------------------------------------------------

using RefValues = std::vector<RefTensor>;  // by value id

RefValues start_values(const Case& c) {
  RefValues values(c.module.values.size());
  for (const auto& [id, tensor] : c.given) values[static_cast<size_t>(id.index)] = tensor;
  return values;
}

std::vector<RefTensor> reference_results(const Case& c, const Op& op, const RefValues& values) {
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

// `round`: results as kernels store them. Without it the arithmetic stays exact, for differences.
void run_reference(const Case& c, RefValues& values, size_t ops, bool round = false) {
  for (size_t at = 0; at < ops; ++at) {
    const Op& op = c.program().ops[at];
    ASSERT_NE(op.def->reference, nullptr) << op.def->kind << " has no reference";
    std::vector<RefTensor> results = reference_results(c, op, values);
    for (RefTensor& r : results) {
      for (double& v : r.v) v = round ? rounded(v, r.type.dtype) : v;
    }
    for (size_t i = 0; i < results.size(); ++i)
      values[static_cast<size_t>(op.outputs[i].index)] = std::move(results[i]);
  }
}

// --- kernels on guarded buffers
// -----------------------------------------------------------------------------------------

constexpr size_t kGuard = 256;
constexpr std::byte kCanary{0xA5};
constexpr std::byte kUnwritten{0xFF};  // NaN as a float, -1 as an integer

class Guarded {
 public:
  explicit Guarded(int64_t bytes)
      : size_(static_cast<size_t>(bytes)), all_(size_ + 3 * kGuard, kCanary) {
    start_ = kGuard + (kGuard - reinterpret_cast<uintptr_t>(all_.data()) % kGuard) % kGuard;
    std::fill_n(data(), size_, kUnwritten);
  }
  std::byte* data() { return all_.data() + start_; }
  const std::byte* data() const { return all_.data() + start_; }
  size_t size() const { return size_; }
  std::span<std::byte> span() { return {data(), size_}; }
  bool intact() const {
    auto is_canary = [](std::byte b) { return b == kCanary; };
    return std::all_of(all_.begin(), all_.begin() + static_cast<std::ptrdiff_t>(start_),
                       is_canary) &&
           std::all_of(all_.begin() + static_cast<std::ptrdiff_t>(start_ + size_), all_.end(),
                       is_canary);
  }
  bool operator==(const Guarded& o) const {
    return size_ == o.size_ && std::memcmp(data(), o.data(), size_) == 0;
  }

 private:
  size_t size_;
  std::vector<std::byte> all_;
  size_t start_ = 0;
};

void store(const RefTensor& from, Guarded& to) {
  visit_dtype(from.type.dtype, [&](auto zero) {
    using T = decltype(zero);
    auto* out = reinterpret_cast<T*>(to.data());
    for (size_t i = 0; i < from.v.size(); ++i) out[i] = static_cast<T>(from.v[i]);
  });
}

std::vector<double> load(const Type& type, const Guarded& from) {
  std::vector<double> out(static_cast<size_t>(type.shape.elements()));
  visit_dtype(type.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto* in = reinterpret_cast<const T*>(from.data());
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<double>(in[i]);
  });
  return out;
}

// Runs one op on copies of its inputs. `shared` names an (output, input) pair that gets one buffer.
struct OpRun {
  std::vector<Guarded> inputs, outputs;
};

OpRun run_kernel(const Case& c, const Op& op, const std::vector<Guarded>& values,
                 std::vector<std::pair<int, int>> shared) {
  const KernelFn kernel = op.def->kernel(Backend::cpu, kernel_dtype(c.module, op));
  OpRun run;
  std::vector<Tensor> in, out;
  for (ValueId id : op.inputs)
    run.inputs.push_back(id.valid() ? values[static_cast<size_t>(id.index)] : Guarded(0));
  for (ValueId id : op.outputs) run.outputs.emplace_back(c.module[id].type.bytes());
  for (const Alias& a : op.def->alias) {
    if (a.must && op.inputs[static_cast<size_t>(a.input)].valid())
      shared.emplace_back(a.output, a.input);
  }
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const ValueId id = op.inputs[i];
    in.push_back(id.valid() ? Tensor{run.inputs[i].data(), &c.module[id].type} : Tensor{});
  }
  for (size_t o = 0; o < op.outputs.size(); ++o)
    out.push_back({run.outputs[o].data(), &c.module[op.outputs[o]].type});
  for (auto [o, i] : shared) out[static_cast<size_t>(o)].data = in[static_cast<size_t>(i)].data;

  Guarded scratch(cost_of(c.module, op, Backend::cpu).workspace);
  kernel(KernelArgs{in, out, scratch.span(), op.attrs});

  EXPECT_TRUE(scratch.intact()) << op.def->kind << " writes beyond its workspace of "
                                << scratch.size() << " bytes";
  for (size_t i = 0; i < run.inputs.size(); ++i) {
    EXPECT_TRUE(run.inputs[i].intact())
        << op.def->kind << " writes outside its input " << op.def->port_of_input(i).name;
    const bool written = std::any_of(shared.begin(), shared.end(),
                                     [&](auto p) { return p.second == static_cast<int>(i); });
    if (!written && op.inputs[i].valid()) {
      EXPECT_TRUE(run.inputs[i] == values[static_cast<size_t>(op.inputs[i].index)])
          << op.def->kind << " changes its input " << op.def->port_of_input(i).name;
    }
  }
  for (size_t o = 0; o < run.outputs.size(); ++o) {
    EXPECT_TRUE(run.outputs[o].intact())
        << op.def->kind << " writes outside its output " << op.def->outputs[o].name;
  }
  for (auto [o, i] : shared)
    run.outputs[static_cast<size_t>(o)] = run.inputs[static_cast<size_t>(i)];
  return run;
}

void expect_close(const std::vector<double>& got, const std::vector<double>& want, Dtype dtype,
                  const std::string& what) {
  const double relative = tolerance(Backend::cpu, dtype);
  double square = 0;
  for (double w : want) square += w * w;
  const double rms = std::sqrt(square / std::max<double>(1, static_cast<double>(want.size())));
  for (size_t i = 0; i < want.size(); ++i) {
    const double allowed =
        is_float(dtype) ? relative * (std::abs(want[i]) + rms) : kIntegerTolerance;
    if (std::abs(got[i] - want[i]) <= allowed) continue;
    ADD_FAILURE() << what << "[" << i << "] is " << got[i] << ", want " << want[i] << " (rms "
                  << rms << ", tolerance " << allowed << ")";
    return;
  }
}

void check_kernels(const Case& c, const RefValues& want) {
  std::vector<Guarded> values;
  for (const Value& v : c.module.values) values.emplace_back(v.type.bytes());
  for (const auto& [id, tensor] : c.given) store(tensor, values[static_cast<size_t>(id.index)]);

  for (const Op& op : c.program().ops) {
    SCOPED_TRACE(fmt::format("{} '{}'", op.def->kind, op.name));
    ASSERT_NE(op.def->kernel(Backend::cpu, kernel_dtype(c.module, op)), nullptr)
        << "no CPU kernel for " << name_of(kernel_dtype(c.module, op));
    const OpRun first = run_kernel(c, op, values, {});
    const OpRun alone = with_threads(1, [&] { return run_kernel(c, op, values, {}); });
    const OpRun shared = with_threads(3, [&] { return run_kernel(c, op, values, {}); });
    // Held to what was not rounded: near a tie two roundings may differ by a whole unit.
    const std::vector<RefTensor> exact = reference_results(c, op, want);
    for (size_t o = 0; o < op.outputs.size(); ++o) {
      const ValueId id = op.outputs[o];
      const Type& type = c.module[id].type;
      const std::string what = fmt::format("{}.{}", op.def->kind, op.def->outputs[o].name);
      EXPECT_TRUE(first.outputs[o] == alone.outputs[o]) << what << " differs on 1 thread";
      EXPECT_TRUE(first.outputs[o] == shared.outputs[o]) << what << " differs on 3 threads";
      expect_close(load(type, first.outputs[o]), exact[o].v, type.dtype, what);
    }
    for (const Alias& a : op.def->alias) {
      if (a.must || !op.inputs[static_cast<size_t>(a.input)].valid()) continue;
      const OpRun in_place = run_kernel(c, op, values, {{a.output, a.input}});
      for (size_t o = 0; o < op.outputs.size(); ++o) {
        EXPECT_TRUE(in_place.outputs[o] == first.outputs[o])
            << op.def->kind << "." << op.def->outputs[o].name << " differs when "
            << op.def->outputs[static_cast<size_t>(a.output)].name << " lies in "
            << op.def->inputs[static_cast<size_t>(a.input)].name;
      }
    }
    // Later ops see the reference's values rounded to the dtype, so that an error does not travel.
    for (size_t o = 0; o < op.outputs.size(); ++o)
      store(want[static_cast<size_t>(op.outputs[o].index)],
            values[static_cast<size_t>(op.outputs[o].index)]);
  }
}

// out = accumulator + result, fresh and in place, for every accumulator that the op grants.
void check_accumulators(Case c, const RefValues& want) {
  const size_t count = c.program().ops.size();
  for (size_t at = 0; at < count; ++at) {
    for (const Accumulate& a : c.program().ops[at].def->accumulate) {
      Op op = c.program().ops[at];
      if (op.inputs[static_cast<size_t>(a.input)].valid()) continue;
      const Type type = c.module[op.outputs[static_cast<size_t>(a.output)]].type;
      const RefTensor before = make_input({type, Fill::normal()}, "accumulator", {});
      op.inputs[static_cast<size_t>(a.input)] =
          add_shared(c.module, "accumulator", type, Category::inputs, Scope::step);
      std::vector<Guarded> values;
      for (const Value& v : c.module.values) values.emplace_back(v.type.bytes());
      for (const auto& [id, tensor] : c.given) store(tensor, values[static_cast<size_t>(id.index)]);
      for (size_t i = 0; i < want.size(); ++i) {
        if (!want[i].v.empty()) store(want[i], values[i]);
      }
      store(before, values.back());
      const OpRun fresh = run_kernel(c, op, values, {});
      const OpRun in_place = run_kernel(c, op, values, {{a.output, a.input}});
      const auto o = static_cast<size_t>(a.output);
      const std::string what =
          fmt::format("{}.{} with an accumulator", op.def->kind, op.def->outputs[o].name);
      EXPECT_TRUE(fresh.outputs[o] == in_place.outputs[o]) << what << " differs in place";
      RefValues with_sum = want;
      with_sum.resize(c.module.values.size());
      with_sum.back() = before;
      const std::vector<double> sum = reference_results(c, op, with_sum)[o].v;  // rounded nowhere
      expect_close(load(type, fresh.outputs[o]), sum, type.dtype, what);
    }
  }
}

void check_gradients(const Case& c, const RefValues& base) {
  auto objective = [&](size_t port, size_t element, double delta) {
    RefValues values = start_values(c);
    values[static_cast<size_t>(c.input_ids[port].index)].v[element] += delta;
    run_reference(c, values, 1);
    double sum = 0;
    for (size_t o = 0; o < c.outputs.size(); ++o) {
      if (!c.cotangents[o].valid()) continue;
      const auto& out = values[static_cast<size_t>(c.outputs[o].index)].v;
      const auto& cotangent = values[static_cast<size_t>(c.cotangents[o].index)].v;
      for (size_t i = 0; i < out.size(); ++i) sum += out[i] * cotangent[i];
    }
    return sum;
  };
  for (size_t port = 0; port < c.gradients.size(); ++port) {
    if (!c.gradients[port].valid()) continue;
    const RefTensor& gradient = base[static_cast<size_t>(c.gradients[port].index)];
    ASSERT_EQ(gradient.shape().text(), c.inputs[port].shape().text())
        << "gradient of input " << port;
    double square = 0;
    for (double g : gradient.v) square += g * g;
    const double rms =
        std::sqrt(square / std::max<double>(1, static_cast<double>(gradient.v.size())));
    constexpr size_t kProbes = 24;
    for (size_t probe = 0; probe < std::min(kProbes, gradient.v.size()); ++probe) {
      const size_t element =
          gradient.v.size() <= kProbes ? probe : mix(probe + 1) % gradient.v.size();
      constexpr double h = 1e-5;
      const double slope = (objective(port, element, h) - objective(port, element, -h)) / (2 * h);
      ASSERT_NEAR(gradient.v[element], slope, 1e-6 * (std::abs(slope) + rms + 1e-3))
          << "gradient of input " << port << ", element " << element;
    }
  }
}

void check_rounded(const Case& c) {
  RefValues values = start_values(c);
  ASSERT_NO_FATAL_FAILURE(run_reference(c, values, c.program().ops.size(), /*round=*/true));
  check_kernels(c, values);
  check_accumulators(c, values);
}

// What autodiff does to backward ops where gradients are kept in f32. False: no op heeds it.
bool keep_parameter_gradients_in_f32(Case& c) {
  bool changed = false;
  for (Op& op : c.module.programs.at(0).ops) {
    if (op.phase != Phase::backward) continue;
    op.attrs.set("grad_dtype", "f32");
    const auto inputs = input_types(c.module, op);
    const auto types = op.def->infer(OpView{*op.def, op.name, op.layer, inputs, op.attrs});
    for (size_t o = 0; o < types.size(); ++o) {
      changed = changed || c.module[op.outputs[o]].type != types[o];
      c.module[op.outputs[o]].type = types[o];
    }
  }
  return changed;
}

}  // namespace

void check_op(const OpDef& def) {
  ASSERT_NE(def.samples, nullptr) << def.kind << " has no samples";
  const std::vector<Sample> samples = def.samples();
  ASSERT_FALSE(samples.empty());
  for (const Sample& sample : samples) {
    SCOPED_TRACE(fmt::format("{} sample '{}'", def.kind, sample.name));
    const Case c = build_case(def, sample);
    RefValues values = start_values(c);
    ASSERT_NO_FATAL_FAILURE(run_reference(c, values, c.program().ops.size()));
    if (def.grad != nullptr) check_gradients(c, values);
    check_rounded(c);
  }
}

void check_op_in_halves(const OpDef& def) {
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    for (Sample sample : def.samples()) {
      SCOPED_TRACE(fmt::format("{} sample '{}' in {}", def.kind, sample.name, name_of(dtype)));
      for (SampleInput& input : sample.inputs) {
        if (input.type.dtype == Dtype::f32 && input.type.shape.rank() > 0) input.type.dtype = dtype;
      }
      Case c = build_case(def, sample);
      check_rounded(c);
      if (keep_parameter_gradients_in_f32(c)) check_rounded(c);
    }
  }
}

std::set<std::string> kinds_reached(const OpDef& def) {
  std::set<std::string> kinds;
  if (def.samples == nullptr) return kinds;
  for (const Sample& sample : def.samples()) {
    const Case c = build_case(def, sample);
    for (const Op& op : c.program().ops) kinds.insert(std::string(op.def->kind));
  }
  return kinds;
}

}  // namespace snug

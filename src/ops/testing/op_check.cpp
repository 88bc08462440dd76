#include "ops/testing/op_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "ops/testing/guarded.h"
#include "ops/testing/op_case.h"
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

double rms_of(const std::vector<double>& v) {
  double square = 0;
  for (double x : v) square += x * x;
  return std::sqrt(square / std::max<double>(1, static_cast<double>(v.size())));
}

// --- kernels on guarded buffers ------------------------------------------------------------------

void store(const RefTensor& from, Guarded& to) { std::ranges::copy(to_bytes(from), to.data()); }

std::vector<double> load(const Type& type, const Guarded& from) {
  return from_bytes(type, from.data()).v;
}

// By value id: what is given, and room for the rest.
std::vector<Guarded> given_buffers(const OpCase& c) {
  std::vector<Guarded> values;
  for (const Value& v : c.module.values) values.emplace_back(v.type.bytes());
  for (const auto& [id, tensor] : c.given) store(tensor, values[static_cast<size_t>(id.index)]);
  return values;
}

// Runs one op on copies of its inputs. `shared` names an (output, input) pair that gets one buffer.
struct OpRun {
  std::vector<Guarded> inputs, outputs;
};

OpRun run_kernel(const OpCase& c, const Op& op, const std::vector<Guarded>& values,
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
  const double rms = rms_of(want);
  for (size_t i = 0; i < want.size(); ++i) {
    const double allowed =
        is_float(dtype) ? relative * (std::abs(want[i]) + rms) : kIntegerTolerance;
    if (std::abs(got[i] - want[i]) <= allowed) continue;
    ADD_FAILURE() << what << "[" << i << "] is " << got[i] << ", want " << want[i] << " (rms "
                  << rms << ", tolerance " << allowed << ")";
    return;
  }
}

void check_kernels(const OpCase& c, const RefValues& want) {
  std::vector<Guarded> values = given_buffers(c);
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
void check_accumulators(OpCase c, const RefValues& want) {
  const size_t count = c.program().ops.size();
  for (size_t at = 0; at < count; ++at) {
    for (const Accumulate& a : c.program().ops[at].def->accumulate) {
      Op op = c.program().ops[at];
      if (op.inputs[static_cast<size_t>(a.input)].valid()) continue;
      const Type type = c.module[op.outputs[static_cast<size_t>(a.output)]].type;
      const RefTensor before = make_input({type, Fill::normal()}, "accumulator", {});
      op.inputs[static_cast<size_t>(a.input)] =
          add_shared(c.module, "accumulator", type, Category::inputs, Scope::step);
      std::vector<Guarded> values = given_buffers(c);
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

void check_gradients(const OpCase& c, const RefValues& base) {
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
    const double rms = rms_of(gradient.v);
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

void check_rounded(const OpCase& c) {
  RefValues values = start_values(c);
  ASSERT_NO_FATAL_FAILURE(run_reference(c, values, c.program().ops.size(), /*round=*/true));
  check_kernels(c, values);
  check_accumulators(c, values);
}

// What autodiff does to backward ops where gradients are kept in f32. False: no op heeds it.
bool keep_parameter_gradients_in_f32(OpCase& c) {
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
    const OpCase c = build_case(def, sample);
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
      OpCase c = build_case(def, sample);
      check_rounded(c);
      if (keep_parameter_gradients_in_f32(c)) check_rounded(c);
    }
  }
}

std::set<std::string> kinds_reached(const OpDef& def) {
  std::set<std::string> kinds;
  if (def.samples == nullptr) return kinds;
  for (const Sample& sample : def.samples()) {
    const OpCase c = build_case(def, sample);
    for (const Op& op : c.program().ops) kinds.insert(std::string(op.def->kind));
  }
  return kinds;
}

}  // namespace snug

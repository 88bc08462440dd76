#include "ops/testing/op_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "base/sanitized.h"
#include "ir/builder.h"
#include "ops/testing/split_check.h"
#include "ops/testing/tensor_bytes.h"
#include "ops/testing/tolerance.h"

namespace snug {
namespace {

// --- kernels on guarded buffers ------------------------------------------------------------------

Guarded stored(const RefTensor& from) {
  Guarded to(from.type.bytes());
  std::ranges::copy(to_bytes(from), to.data());
  return to;
}

// By value id: what is given, and buffers for the rest.
Buffers given_buffers(const OpCase& c) {
  Buffers values;
  for (const Value& v : c.module.values) values.emplace_back(v.type.bytes());
  for (const auto& [id, tensor] : c.given) values[at(id)] = stored(tensor);
  return values;
}

// One op on one backend, with what it should give.
class KernelCheck {
 public:
  KernelCheck(const OpCase& c, const Op& op, const Buffers& values, OpRunner& runner,
              const Expected& expected)
      : c_(c), op_(op), values_(values), runner_(runner), expected_(expected) {}

  void values_and_aliases() {
    const Buffers first = runner_.run(c_, op_, values_, {});
    for (size_t o = 0; o < first.size(); ++o) close(first, o, "");
    for (const auto& [way, again] : runner_.again(c_, op_, values_)) {
      for (size_t o = 0; o < first.size(); ++o)
        EXPECT_TRUE(again[o] == first[o]) << name(o) << " differs " << way;
    }
    if (runner_.backend() == Backend::cpu) check_splits(c_, op_, values_, runner_, first);
    std::vector<Shared> together;
    for (const Alias& a : op_.def->alias) {
      if (a.must || !op_.inputs[static_cast<size_t>(a.input)].valid()) continue;
      in_place({{a.output, a.input}}, first);
      const auto taken = [&](const Shared& s) {
        return s.output == a.output || s.input == a.input;
      };
      if (std::ranges::none_of(together, taken)) together.push_back({a.output, a.input});
    }
    if (together.size() > 1) in_place(together, first);
  }

  // out = accumulator + result, fresh and in place.
  void accumulator(const Accumulate& a) {
    const Buffers fresh = runner_.run(c_, op_, values_, {});
    close(fresh, static_cast<size_t>(a.output), " with an accumulator");
    in_place({{a.output, a.input}}, fresh);
  }

 private:
  std::string name(size_t o) const {
    return fmt::format("{}.{}", op_.def->kind, op_.def->outputs[o].name);
  }

  void close(const Buffers& got, size_t o, const std::string& how) const {
    const Type& type = c_.module[op_.outputs[o]].type;
    const std::vector<double> result = from_bytes(type, got[o].data()).v;
    const std::vector<double>& want = expected_.outputs[o];
    const auto rounding = expected_.roundings.find(o);
    if (rounding == expected_.roundings.end()) {
      expect_close(result, want, runner_.backend(), type.dtype, name(o) + how, expected_.factor);
      return;
    }
    const Dtype rounded_to = expected_.rounded_to.value_or(kernel_dtype(c_.module, op_));
    expect_close(result, want, runner_.backend(), rounded_to, name(o) + how, rounding->second.one);
    expect_close_overall(result, want, runner_.backend(), rounded_to, name(o) + how,
                         rounding->second.all);
  }

  void in_place(const std::vector<Shared>& shared, const Buffers& fresh) {
    std::string how = " when";
    for (const auto& [o, i] : shared) {
      how +=
          fmt::format(" {} shares the bytes of {}", op_.def->outputs[static_cast<size_t>(o)].name,
                      op_.def->inputs[static_cast<size_t>(i)].name);
    }
    const Buffers got = runner_.run(c_, op_, values_, shared);
    for (size_t o = 0; o < got.size(); ++o) {
      if (runner_.repeats_bits()) {
        EXPECT_TRUE(got[o] == fresh[o]) << name(o) << " differs" << how;
      } else {
        close(got, o, how);
      }
    }
  }

  const OpCase& c_;
  const Op& op_;
  const Buffers& values_;
  OpRunner& runner_;
  const Expected& expected_;
};

void check_accumulators(OpCase& c, const Op& op, Buffers& values, OpRunner& runner,
                        const Oracle& oracle) {
  for (const Accumulate& a : op.def->accumulate) {
    Op summing = op;
    ValueId& port = summing.inputs[static_cast<size_t>(a.input)];
    if (port.valid()) continue;
    const Type type = c.module[op.outputs[static_cast<size_t>(a.output)]].type;
    port = add_shared(c.module, fmt::format("accumulator.{}", values.size()), type,
                      Category::inputs, Scope::step);
    values.push_back(stored(make_input({type, Fill::normal()}, "accumulator", {})));
    KernelCheck(c, summing, values, runner, oracle(c, summing, values)).accumulator(a);
  }
}

// --- gradients -----------------------------------------------------------------------------------

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

// --- samples -------------------------------------------------------------------------------------

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

Expected expect_reference(const OpCase& c, const Op& op, const Buffers& values) {
  RefValues inputs(values.size());
  for (ValueId id : op.inputs) {
    if (id.valid()) inputs[at(id)] = from_bytes(c.module[id].type, values[at(id)].data());
  }
  Expected expected;
  // Held to what was not rounded: near a tie two roundings may differ by a whole unit.
  for (RefTensor& r : reference_results(c, op, inputs)) {
    expected.outputs.push_back(r.v);
    expected.stored.push_back(stored(rounded(std::move(r))));
  }
  return expected;
}

Expected expect_cpu_kernel(const OpCase& c, const Op& op, const Buffers& values) {
  Expected expected{.outputs = {}, .stored = CpuRunner().run(c, op, values, {}), .factor = 2};
  for (size_t o = 0; o < op.outputs.size(); ++o) {
    const Type& type = c.module[op.outputs[o]].type;
    expected.outputs.push_back(from_bytes(type, expected.stored[o].data()).v);
  }
  return expected;
}

void check_kernels(OpCase c, OpRunner& runner, const Oracle& oracle) {
  Buffers values = given_buffers(c);
  for (const Op& op : c.program().ops) {
    const Dtype dtype = kernel_dtype(c.module, op);
    SCOPED_TRACE(fmt::format("{} '{}' in {}", op.def->kind, op.name, name_of(dtype)));
    Expected expected = oracle(c, op, values);
    if (op.def->kernel(runner.backend(), dtype) == nullptr) {
      ADD_FAILURE() << op.def->kind << " has no kernel for " << name_of(dtype);
    } else {
      KernelCheck(c, op, values, runner, expected).values_and_aliases();
      check_accumulators(c, op, values, runner, oracle);
    }
    // Later ops see what was expected, as kernels store it, so that an error does not travel.
    for (size_t o = 0; o < op.outputs.size(); ++o)
      values[at(op.outputs[o])] = std::move(expected.stored[o]);
  }
}

Sample in_dtype(Sample sample, Dtype dtype) {
  for (SampleInput& input : sample.inputs) {
    if (input.type.dtype == Dtype::f32 && input.type.shape.rank() > 0) input.type.dtype = dtype;
  }
  return sample;
}

Sample in_dtype(const OpDef& def, const Sample& sample, Dtype dtype) {
  Sample all = in_dtype(sample, dtype);
  try {
    build_program(def, all);
    return all;
  } catch (const Error&) {  // statistics stay f32
    for (size_t i = 0; i < all.inputs.size(); ++i)
      if (sample.inputs[i].fill.compute) all.inputs[i].type = sample.inputs[i].type;
  }
  return all;
}

void check_sample(const OpDef& def, const Sample& sample, OpRunner& runner, const Oracle& oracle) {
  OpCase c = build_case(def, sample);
  check_kernels(c, runner, oracle);
  if (keep_parameter_gradients_in_f32(c)) check_kernels(std::move(c), runner, oracle);
}

void check_op(const OpDef& def) {
  ASSERT_NE(def.samples, nullptr) << def.kind << " has no samples";
  const std::vector<Sample> samples = def.samples();
  ASSERT_FALSE(samples.empty());
  CpuRunner cpu;
  for (const Sample& sample : samples) {
    SCOPED_TRACE(fmt::format("{} sample '{}'", def.kind, sample.name));
    const OpCase c = build_case(def, sample);
    for (const Op& op : c.program().ops) {
      ASSERT_NE(op.def->reference, nullptr) << op.def->kind << " has no reference";
    }
    if (def.grad != nullptr && !kSanitized) {  // slow, and of the references alone
      RefValues values = start_values(c);
      run_reference(c, values, c.program().ops.size());
      check_gradients(c, values);
    }
    check_sample(def, sample, cpu);
  }
}

void check_op_in_halves(const OpDef& def) {
  CpuRunner cpu;
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    if (kSanitized && dtype == Dtype::f16) break;  // the memory that bf16's kernels touch
    for (const Sample& sample : def.samples()) {
      SCOPED_TRACE(fmt::format("{} sample '{}' in {}", def.kind, sample.name, name_of(dtype)));
      check_sample(def, in_dtype(def, sample, dtype), cpu);
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

// Every update on CUDA against the CPU's: the same bits, for all methods and types. Where a
// parameter is updated is a choice that must not change a result.
#include <gtest/gtest.h>

#include "gpu/cuda_runner.h"
#include "ops/optimizer/adam_mini.h"
#include "ops/optimizer/adamw.h"
#include "ops/optimizer/adamw8bit.h"
#include "ops/optimizer/lion.h"
#include "ops/optimizer/sgd.h"
#include "ops/optimizer/update_op.h"
#include "ops/testing/op_check.h"
#include "ops/testing/refusal.h"
#include "ops/testing/tensor_bytes.h"

namespace snug {
namespace {

// By value id: what is given before the op runs.
Buffers given_to_update(const OpCase& c) {
  Buffers values;
  for (const Value& v : c.module.values) values.emplace_back(v.type.bytes());
  for (const auto& [id, tensor] : c.given)
    std::ranges::copy(to_bytes(tensor), values[at(id)].data());
  return values;
}

void expect_updates_like_cpu(const OpDef& def, const Sample& sample) {
  const OpCase c = build_case(def, sample);
  const Op& op = c.program().ops[0];
  const Buffers values = given_to_update(c);
  CpuRunner cpu;
  CudaRunner cuda({.deterministic = true});
  const Buffers want = cpu.run(c, op, values, {}), got = cuda.run(c, op, values, {});
  for (size_t o = 0; o < want.size(); ++o)
    EXPECT_TRUE(got[o] == want[o]) << "output " << def.outputs[o].name;
}

// Ordinary gradients, none, ones whose squares are subnormal or 0, and large ones.
std::vector<Fill> gradients() {
  return {Fill::normal(), Fill::constant(0), Fill::normal(1e-21), Fill::normal(1e-38),
          Fill::normal(1e4)};
}

// Of more elements than a launch has threads, where states have the parameter's shape.
std::vector<Sample> long_samples(const OpDef& def) {
  std::vector<Sample> samples;
  if (def.kind.starts_with("adam_mini") || def.kind.starts_with("adamw8bit")) return samples;
  for (Sample s : def.samples()) {
    const Shape before = s.inputs[ops::UpdatePorts::kParam].type.shape;
    for (SampleInput& input : s.inputs) {
      if (input.type.shape == before) input.type.shape = {1'200'003};
    }
    s.name += ", long";
    samples.push_back(std::move(s));
  }
  return samples;
}

class UpdateOnCuda : public ::testing::TestWithParam<const OpDef*> {};

TEST_P(UpdateOnCuda, HasTheBitsOfTheCpu) {
  SNUG_NEEDS_CUDA;
  const OpDef& def = *GetParam();
  std::vector<Sample> samples = def.samples();
  const std::vector<Sample> more = long_samples(def);
  samples.insert(samples.end(), more.begin(), more.end());
  int compared = 0;
  for (const Sample& plain : samples) {
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
      Sample sample = in_dtype(plain, dtype);
      if (!refusal_of([&] { build_program(def, sample); }).empty()) continue;
      for (const Fill& gradient : gradients()) {
        sample.inputs[ops::UpdatePorts::kGrad].fill = gradient;
        SCOPED_TRACE(fmt::format("{} sample '{}' in {}, gradient {} of {}", def.kind, sample.name,
                                 name_of(dtype), static_cast<int>(gradient.kind), gradient.a));
        expect_updates_like_cpu(def, sample);
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 0);
}

INSTANTIATE_TEST_SUITE_P(Methods, UpdateOnCuda,
                         ::testing::Values(&ops::adamw_def, &ops::adamw_master_def,
                                           &ops::adamw8bit_def, &ops::adamw8bit_master_def,
                                           &ops::adam_mini_def, &ops::adam_mini_master_def,
                                           &ops::lion_def, &ops::lion_master_def, &ops::sgd_def,
                                           &ops::sgd_master_def, &ops::sgd_momentum_def,
                                           &ops::sgd_momentum_master_def),
                         [](const auto& method) { return std::string(method.param->kind); });

}  // namespace
}  // namespace snug

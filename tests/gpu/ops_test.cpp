// Every op on CUDA, from its samples: values against the reference, determinism, guards, in place.
#include <gtest/gtest.h>

#include "gpu/cuda_rounding.h"
#include "gpu/cuda_runner.h"
#include "ops/registry.h"
#include "ops/testing/op_check.h"
#include "ops/testing/refusal.h"

namespace snug {
namespace {

struct OpAndDtype {
  const OpDef* def;
  Dtype dtype;

  std::string name() const { return fmt::format("{}_{}", def->kind, name_of(dtype)); }
  friend void PrintTo(const OpAndDtype& p, std::ostream* to) { *to << p.name(); }
};

std::vector<OpAndDtype> ops_and_dtypes() {
  std::vector<OpAndDtype> all;
  for (const OpDef* def : ops::registry()) {
    const auto on_cuda = [](const Kernel& k) { return k.backend == Backend::cuda; };
    if (def->samples == nullptr || std::ranges::none_of(def->kernels, on_cuda)) continue;
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) all.push_back({def, dtype});
  }
  return all;
}

// False where the op's own rules refuse the sample in that type (an f16 moment, noise without a
// seed). Any other error fails the test.
bool is_accepted(const OpDef& def, const Sample& sample) {
  return refusal_of([&] { build_program(def, sample); }).empty();
}

// Does some sample, as it is written, run the op's kernel in this type?
bool has_sample_in(const OpDef& def, Dtype dtype) {
  return std::ranges::any_of(def.samples(), [&](const Sample& sample) {
    const OpCase c = build_program(def, sample);
    return kernel_dtype(c.module, c.program().ops[0]) == dtype;
  });
}

// A gradient of two bytes that adds up over chunks is rounded once per chunk, on every backend.
Expected expect_in_chunks(const OpCase& c, const Op& op, const Buffers& values) {
  Expected expected = expect_reference(c, op, values);
  if (op.attrs.has("chunk") && !op.def->accumulate.empty()) expected.factor = 2;
  return expected;
}

}  // namespace

class OpOnCuda : public ::testing::TestWithParam<OpAndDtype> {};

TEST_P(OpOnCuda, AgreesWithItsReference) {
  SNUG_NEEDS_CUDA;
  const auto& [def, dtype] = GetParam();
  CudaRunner fastest({.deterministic = false}), repeatable({.deterministic = true});
  bool any = false;
  for (Sample sample : def->samples()) {
    sample = in_dtype(*def, sample, dtype);
    if (!is_accepted(*def, sample)) continue;
    any = true;
    for (CudaRunner* runner : {&repeatable, &fastest}) {
      SCOPED_TRACE(fmt::format("{} sample '{}' in {}, {}", def->kind, sample.name, name_of(dtype),
                               runner->repeats_bits() ? "deterministic" : "fastest"));
      try {
        check_sample(*def, sample, *runner, with_cuda_rounding(expect_in_chunks));
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
      }
    }
  }
  if (any) return;
  // Samples that are written in this type run in addition to those of f32.
  EXPECT_TRUE(def->kernel(Backend::cuda, dtype) == nullptr || has_sample_in(*def, dtype))
      << def->kind << " has a kernel for " << name_of(dtype) << " that no sample runs";
  GTEST_SKIP() << def->kind << " takes no arrays of " << name_of(dtype);
}

INSTANTIATE_TEST_SUITE_P(, OpOnCuda, ::testing::ValuesIn(ops_and_dtypes()),
                         [](const auto& test) { return test.param.name(); });

}  // namespace snug

// The gradient norm: the CPU's bits, in the order of addition that sum_blocks.h fixes.
#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "gpu/cuda_runner.h"
#include "gpu/many_ops.h"
#include "ops/optimizer/clip.h"
#include "ops/optimizer/sum_blocks.h"
#include "ops/testing/op_check.h"
#include "ops/testing/tensor_bytes.h"

namespace snug {
namespace {

void expect_bits_of_cpu(const OpDef& def, const Sample& sample) {
  CudaRunner runner(Math{});
  const Oracle same_bits = [&](const OpCase& c, const Op& op, const Buffers& values) {
    Expected expected = expect_cpu_kernel(c, op, values);
    EXPECT_TRUE(runner.run(c, op, values, {}) == expected.stored) << def.kind << " " << sample.name;
    return expected;
  };
  check_kernels(build_case(def, sample), runner, same_bits);
}

// Block sums of many gradients, so different that any other order of addition is seen: each second
// gradient takes away again what the one before it adds, and what remains is the first, and roundings.
Sample many_gradients() {
  const auto various = [](RefTensor& self, std::span<const RefTensor> earlier) {
    for (size_t i = 0; i < self.v.size(); ++i) {
      const auto bits = philox(earlier.size(), i);
      self.v[i] = std::ldexp(unit_float(bits[0]) - 0.5, static_cast<int>(bits[1] % 90));
    }
  };
  const auto negated = [](RefTensor& self, std::span<const RefTensor> earlier) {
    for (size_t i = 0; i < self.v.size(); ++i) self.v[i] = -earlier.back().v[i];
  };
  const SampleInput absent{{Dtype::f32, {}}, Fill::absent()};
  Sample sample{"many gradients",
                {absent, absent, {{Dtype::f64, {1}}, Fill::constant(0x1p48)}},
                {{"max_norm", 1.0}}};
  for (int64_t pair = 0; pair < 350; ++pair) {
    const Type type{Dtype::f64, {1 + pair % 13}};
    sample.inputs.push_back({type, {.compute = various}});
    sample.inputs.push_back({type, {.compute = negated}});
  }
  return sample;
}

}  // namespace

TEST(Norm, HasTheBitsOfTheCpu) {
  SNUG_NEEDS_CUDA;
  for (const Sample& sample : ops::sum_squares_def.samples()) {
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16})
      expect_bits_of_cpu(ops::sum_squares_def, in_dtype(sample, dtype));
  }
  for (const Sample& sample : ops::clip_def.samples()) expect_bits_of_cpu(ops::clip_def, sample);
}

TEST(Norm, MoreGradientsThanOneLaunch) {
  SNUG_NEEDS_CUDA;
  expect_bits_of_cpu(ops::clip_def, many_gradients());
}

TEST(Norm, DoesNotDependOnTheAddressOfAGradient) {
  SNUG_NEEDS_CUDA;
  constexpr int64_t kElements = 2 * ops::kSumBlock + 4099;
  const Type sums_type{Dtype::f64, {ops::sum_blocks(kElements)}};
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
    const Type type{dtype, {kElements}};
    const std::vector<std::byte> grad = to_bytes(make_input({type}, "grad", {}));
    const auto sums_at = [&](int64_t offset) {
      std::vector<std::byte> bytes(static_cast<size_t>(offset));
      bytes.insert(bytes.end(), grad.begin(), grad.end());
      DeviceBuffer memory(offset + type.bytes(), the_stream());
      memory.upload(bytes.data());
      const DeviceBuffer sums(sums_type.bytes(), the_stream());
      const Tensor in{memory.data() + offset, &type}, out{sums.data(), &sums_type};
      const Attrs attrs;
      ops::sum_squares_def.kernel(Backend::cuda,
                                  dtype)({{&in, 1}, {&out, 1}, {}, attrs, the_stream()});
      std::vector<std::byte> result(sums.size());
      sums.download(result.data());
      return result;
    };
    EXPECT_TRUE(sums_at(0) == sums_at(size_of(dtype))) << name_of(dtype);
  }
}

}  // namespace snug

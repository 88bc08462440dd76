// Updates of many parameters and sums of many gradients in one call against one call each: the same
// bits.
#include "gpu/many_ops.h"

#include <gtest/gtest.h>

#include "gpu/cuda_runner.h"
#include "ops/optimizer/adamw.h"
#include "ops/optimizer/clip.h"
#include "ops/optimizer/lion.h"
#include "ops/optimizer/sgd.h"
#include "ops/optimizer/update_op.h"
#include "ops/testing/tensor_bytes.h"

namespace snug {
namespace {

constexpr Dtype f32 = Dtype::f32, bf16 = Dtype::bf16, f16 = Dtype::f16;

struct Types {
  Dtype param, grad, state;
  Dtype weight = bf16;  // of a master
};

// One op, of which several things differ from parameter to parameter.
Sample update_sample(const OpDef& def, const Types& types, int64_t elements, int index) {
  const bool rounds = types.param != f32 || types.state != f32;
  const bool on_master = def.outputs.back().name == ops::kWeightPort;
  const auto scalar = [](Dtype dtype, double value) {
    return SampleInput{{dtype, {}}, Fill::constant(value)};
  };
  Sample s{fmt::format("{}", index), {{{types.param, {elements}}}, {{types.grad, {elements}}}}};
  for (size_t o = 1; o < def.outputs.size() - (on_master ? 1 : 0); ++o)
    s.inputs.push_back(
        {{types.state, {elements}}, o == 1 ? Fill::normal(0.1) : Fill::constant(0.3)});
  if (on_master) s.inputs.push_back({{types.weight, {elements}}});
  s.inputs.insert(s.inputs.end(),
                  {scalar(f32, 1e-2),
                   scalar(Dtype::i64, 3),
                   scalar(f32, 0.5),
                   {{Dtype::i64, {}}, rounds ? Fill::constant(11) : Fill::absent()}});
  s.attrs = {{"beta1", 0.9},
             {"beta2", 0.95},
             {"eps", 1e-8},
             {"momentum", 0.9},
             {"weight_decay", index % 3 == 0 ? 0.0 : 0.1},
             {"key", fmt::format("update.{}", index)}};
  return s;
}

// Within a vector, a chunk, around their ends, nothing at all, and more than a wave of blocks.
const std::vector<int64_t> kSizes{37, 8, 2048, 2047, 2049, 0, 1, 4096, 896, 1'200'003, 5000};

std::vector<Sample> samples_of(const OpDef& def, const Types& types, size_t count) {
  std::vector<Sample> samples;
  for (size_t i = 0; i < count; ++i)
    samples.push_back(update_sample(def, types, kSizes[i % kSizes.size()], static_cast<int>(i)));
  return samples;
}

// The outputs after `samples`' ops, in one call or in one each.
std::vector<std::vector<std::byte>> run(const OpDef& def, const std::vector<Sample>& samples,
                                        bool together, int32_t predicate = 1) {
  DeviceBuffer go(sizeof predicate, the_stream());
  go.upload(reinterpret_cast<const std::byte*>(&predicate));
  const ManyOps ops(def, samples, the_stream());
  const std::vector<KernelArgs> calls = ops.calls(reinterpret_cast<const int32_t*>(go.data()));
  if (together) {
    ops.kernel().run_many(calls);
  } else {
    for (const KernelArgs& call : calls) ops.kernel().run(call);
  }
  EXPECT_TRUE(ops.intact()) << def.kind << " writes outside of its arrays";
  return ops.download();
}

// An array of floats, rounded to nearest.
std::vector<std::byte> nearest(const std::vector<std::byte>& floats, Dtype dtype) {
  const auto n = static_cast<int64_t>(floats.size() / sizeof(float));
  const RefTensor from = from_bytes({f32, {n}}, floats.data());
  return to_bytes({{dtype, {n}}, from.v});
}

void expect_same_bits(const OpDef& def, const std::vector<Sample>& samples) {
  const auto alone = run(def, samples, /*together=*/false);
  EXPECT_TRUE(run(def, samples, /*together=*/true) == alone) << def.kind;
  const auto untouched = run(def, samples, /*together=*/true, /*predicate=*/0);
  EXPECT_FALSE(untouched == alone) << def.kind;
  EXPECT_TRUE(untouched == run(def, samples, /*together=*/false, /*predicate=*/0)) << def.kind;
}

}  // namespace

TEST(ManyUpdates, HaveTheBitsOfOneByOne) {
  SNUG_NEEDS_CUDA;
  for (const OpDef* def :
       {&ops::adamw_def, &ops::lion_def, &ops::sgd_def, &ops::sgd_momentum_def}) {
    for (const Types& types : {Types{f32, f32, f32},
                               {f32, bf16, bf16},
                               {bf16, bf16, bf16},
                               {bf16, f32, f32},
                               {f16, f16, f32}})
      expect_same_bits(*def, samples_of(*def, types, kSizes.size()));
  }
}

TEST(ManyUpdates, MasterUpdatesHaveBitsOfSingleUpdates) {
  SNUG_NEEDS_CUDA;
  for (const OpDef* def : {&ops::adamw_master_def, &ops::lion_master_def, &ops::sgd_master_def,
                           &ops::sgd_momentum_master_def}) {
    for (const Types& types : {Types{f32, f32, f32, bf16},
                               {f32, f32, bf16, f16},
                               {f32, bf16, bf16, bf16},
                               {f32, f16, f32, f16}})
      expect_same_bits(*def, samples_of(*def, types, kSizes.size()));
  }
}

// A master's update has the bits of the update alone and of an `assign` after it.
TEST(ManyUpdates, MastersAreRoundedAsByAssign) {
  SNUG_NEEDS_CUDA;
  for (const auto& [alone, on_master] : {std::pair{&ops::adamw_def, &ops::adamw_master_def},
                                         {&ops::lion_def, &ops::lion_master_def},
                                         {&ops::sgd_def, &ops::sgd_master_def},
                                         {&ops::sgd_momentum_def, &ops::sgd_momentum_master_def}}) {
    for (const Types& types : {Types{f32, bf16, bf16, bf16}, {f32, f32, f32, f16}}) {
      const auto want = run(*alone, samples_of(*alone, types, kSizes.size()), true);
      const auto got = run(*on_master, samples_of(*on_master, types, kSizes.size()), true);
      const size_t outputs = alone->outputs.size();
      for (size_t i = 0; i < kSizes.size(); ++i) {
        for (size_t o = 0; o < outputs; ++o)
          EXPECT_TRUE(got[i * (outputs + 1) + o] == want[i * outputs + o]) << on_master->kind;
        EXPECT_TRUE(got[i * (outputs + 1) + outputs] == nearest(want[i * outputs], types.weight))
            << on_master->kind << ", the weight of " << kSizes[i] << " elements";
      }
    }
  }
}

TEST(ManyUpdates, MoreParametersThanOneLaunch) {
  SNUG_NEEDS_CUDA;
  expect_same_bits(ops::adamw_def, samples_of(ops::adamw_def, {bf16, bf16, bf16}, 120));
  expect_same_bits(ops::adamw_master_def, samples_of(ops::adamw_master_def, {f32, bf16, f32}, 120));
}

TEST(ManyUpdates, MayDifferInTypesAndNumbers) {
  SNUG_NEEDS_CUDA;
  std::vector<Sample> samples = samples_of(ops::adamw_def, {bf16, bf16, bf16}, 4);
  for (const Sample& s : samples_of(ops::adamw_def, {bf16, f32, f32}, 4)) samples.push_back(s);
  for (Sample s : samples_of(ops::adamw_def, {bf16, f32, f32}, 4)) {
    s.attrs.set("beta1", 0.8);
    samples.push_back(std::move(s));
  }
  expect_same_bits(ops::adamw_def, samples);
}

TEST(ManySums, HaveTheBitsOfOneByOne) {
  SNUG_NEEDS_CUDA;
  for (const Dtype dtype : {f32, bf16, f16}) {
    std::vector<Sample> samples;
    for (size_t i = 0; i < 300; ++i) {  // more than one launch takes
      const int64_t elements = kSizes[i % kSizes.size()] + static_cast<int64_t>(i / kSizes.size());
      samples.push_back({fmt::format("{}", i), {{{dtype, {elements}}}}});
    }
    EXPECT_TRUE(run(ops::sum_squares_def, samples, /*together=*/true) ==
                run(ops::sum_squares_def, samples, /*together=*/false))
        << name_of(dtype);
  }
}

}  // namespace snug

// Eight micro-batches of one sequence against one batch of eight in fp32: the loss and every
// gradient.
#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "passes/shared_names.h"
#include "support/small_run.h"

namespace snug {
namespace {

constexpr int64_t kSequences = 8;

// Tokens and targets that depend on the sequence's number in the step alone.
void feed(SmallRun& run, int64_t micro_batch) {
  run.feed(micro_batch);
  const Key key = random_key(7, 0, hash_name("sequences"));
  for (const char* name : {"tokens", "targets"}) {
    const ValueId id = run.executor().shared(name);
    const auto out = run.executor().values<int32_t>(id);
    const auto first = static_cast<uint64_t>(micro_batch) * out.size();
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<int32_t>(philox(key, first + i, hash_name(name))[0] % 64);
  }
}

// The step's gradients are there, and no update has been made.
void run_micro_batches(SmallRun& run, int64_t count) {
  for (int64_t m = 0; m < count; ++m) {
    feed(run, m);
    run.executor().run(m == 0 ? "micro_first" : "micro_next");
  }
}

double norm(std::span<const float> values) {
  double sum = 0;
  for (const float v : values) sum += static_cast<double>(v) * static_cast<double>(v);
  return std::sqrt(sum);
}

struct Accumulated {
  const char* family;
  double dropout;
};

class Accumulation : public ::testing::TestWithParam<Accumulated> {};

TEST_P(Accumulation, EightMicroBatchesAreOneBatchOfEight) {
  const std::string model = tests_dir() + "/parity/" + GetParam().family;
  const double dropout = GetParam().dropout;
  SmallRun whole(model, {.batch = kSequences, .seq = 19, .dropout = dropout});
  SmallRun parts(model, {.batch = 1, .seq = 19, .dropout = dropout}, {.accum = kSequences});
  run_micro_batches(whole, 1);
  run_micro_batches(parts, kSequences);

  const auto loss = [](SmallRun& run) {
    return run.executor().scalar<float>(run.executor().shared(shared_names::kLoss));
  };
  EXPECT_NEAR(loss(parts), loss(whole), 1e-6 * loss(whole));

  double largest = 0;
  int compared = 0;
  for (const Value& value : whole.module().values) {
    if (value.category != Category::grads || !value.shared()) continue;
    const auto want = whole.executor().values<float>(whole.executor().shared(value.name));
    const auto got = parts.executor().values<float>(parts.executor().shared(value.name));
    ASSERT_EQ(got.size(), want.size());
    std::vector<float> apart;
    for (size_t i = 0; i < want.size(); ++i) apart.push_back(got[i] - want[i]);
    EXPECT_LE(norm(apart), 1e-5 * norm(want)) << value.name;
    largest = std::max(largest, norm(want));
    ++compared;
  }
  EXPECT_EQ(compared, std::ranges::count_if(whole.module().values,
                                            [](const Value& v) {
                                              return v.category == Category::params && v.shared();
                                            }))
      << "a gradient for each parameter";
  EXPECT_GT(largest, 0.1) << "there is something to compare";
}

INSTANTIATE_TEST_SUITE_P(Models, Accumulation,
                         ::testing::Values(Accumulated{"gpt2", 0}, Accumulated{"gpt2", 0.1},
                                           Accumulated{"llama", 0}, Accumulated{"llama", 0.1},
                                           Accumulated{"qwen2", 0}),
                         [](const auto& p) {
                           return std::string(p.param.family) +
                                  (p.param.dropout > 0 ? "_dropout" : "");
                         });

}  // namespace
}  // namespace snug

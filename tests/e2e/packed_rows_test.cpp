// Rows that hold several samples against each sample alone in a row of its own, in fp32: the losses
// and every gradient. Samples are shorter and longer than a tile of the kernels, and begin inside
// one and at its edge.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/rng.h"
#include "formats/testing.h"
#include "passes/shared_names.h"
#include "settings/parse.h"
#include "support/small_run.h"

namespace snug {
namespace {

constexpr int64_t kRow = 150;
// Of each row the lengths of its samples.
const std::vector<std::vector<int64_t>> kRows{{70, 5, 1, 52, 22}, {64, 86}, {1, 149}};

// Large weights: what attention mixes, and how, shows in every number.
const std::map<std::string, std::string> kConfigs{
    {"llama", R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 24,
       "vocab_size": 61, "num_attention_heads": 4, "num_key_value_heads": 2,
       "intermediate_size": 32, "max_position_embeddings": 200, "initializer_range": 0.3})"},
    {"gpt2", R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 24, "n_head": 3, "n_positions": 160,
       "vocab_size": 61, "attn_pdrop": 0, "embd_pdrop": 0, "resid_pdrop": 0,
       "initializer_range": 0.3})"},
    {"qwen3", R"({"model_type": "qwen3", "num_hidden_layers": 2, "hidden_size": 24,
       "vocab_size": 61, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
       "intermediate_size": 32, "max_position_embeddings": 200, "initializer_range": 0.3})"},
    {"window", R"({"model_type": "mistral", "num_hidden_layers": 2, "hidden_size": 24,
       "vocab_size": 61, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 6,
       "intermediate_size": 32, "max_position_embeddings": 200, "sliding_window": 20,
       "initializer_range": 0.3})"},
};

struct Packed {
  std::string model;
  ops::AttentionKind attention;
  std::string recompute = "none";
};

struct RowSample {
  int64_t row, begin, length;
};
std::vector<RowSample> all_samples() {
  std::vector<RowSample> samples;
  for (int64_t row = 0; row < std::ssize(kRows); ++row) {
    int64_t begin = 0;
    for (const int64_t length : kRows[static_cast<size_t>(row)]) {
      samples.push_back({row, begin, length});
      begin += length;
    }
    EXPECT_EQ(begin, kRow);
  }
  return samples;
}

// What token `at` of a row is; of the targets another number than of the tokens.
int32_t token_at(int64_t row, int64_t at, std::string_view input) {
  const Key key = random_key(3, static_cast<uint64_t>(row), hash_name(input));
  return static_cast<int32_t>(philox(key, static_cast<uint64_t>(at))[0] % 61);
}

using GradientsByName = std::map<std::string, std::vector<double>>;
struct PackedResult {
  double loss = 0;  // the sum over the targets
  GradientsByName gradients;
};

class PackedRows : public ::testing::TestWithParam<Packed> {
 protected:
  PackedRows() { testing::write_bytes(dir_ / "config.json", kConfigs.at(GetParam().model)); }

  SmallRun make_run(int64_t batch, int64_t seq, bool packed) const {
    return SmallRun(
        dir_.path().string(),
        {.batch = batch,
         .seq = seq,
         .attention = GetParam().attention,
         .attention_chunk = 48,
         .packed = packed},
        {.recompute = parse_setting<RecomputePolicy>(GetParam().recompute, "recompute")});
  }

  // Loss and gradients of what is fed; dloss is the same for all, so gradients add up.
  static PackedResult run(SmallRun& run) {
    Executor& executor = run.executor();
    executor.write_scalar(executor.shared(shared_names::kLossGrad), 1.0F / kRow);
    executor.run("micro_first");
    PackedResult result{.loss = executor.scalar<float>(executor.shared(shared_names::kLoss))};
    for (const Value& value : run.module().values) {
      if (value.category != Category::grads || !value.shared()) continue;
      const auto gradient = executor.values<float>(executor.shared(value.name));
      result.gradients[value.name].assign(gradient.begin(), gradient.end());
    }
    return result;
  }

  PackedResult alone(const RowSample& sample) const {
    SmallRun small = make_run(1, sample.length, /*packed=*/false);
    small.feed(0);
    for (const char* input : {"tokens", "targets"}) {
      const auto out = small.executor().values<int32_t>(small.executor().shared(input));
      for (int64_t i = 0; i < sample.length; ++i)
        out[static_cast<size_t>(i)] = token_at(sample.row, sample.begin + i, input);
    }
    return run(small);
  }

  // All rows; only the targets of samples that `counts` names are there.
  template <typename Counts>
  static void feed_packed(SmallRun& small, const Counts& counts) {
    small.feed(0);
    Executor& executor = small.executor();
    const auto tokens = executor.values<int32_t>(executor.shared("tokens"));
    const auto targets = executor.values<int32_t>(executor.shared("targets"));
    const auto starts = executor.values<int32_t>(executor.shared("starts"));
    for (const RowSample& sample : all_samples()) {
      for (int64_t i = sample.begin; i < sample.begin + sample.length; ++i) {
        const auto at = static_cast<size_t>(sample.row * kRow + i);
        tokens[at] = token_at(sample.row, i, "tokens");
        targets[at] = counts(sample) ? token_at(sample.row, i, "targets") : -1;
        starts[at] = static_cast<int32_t>(sample.begin);
      }
    }
  }

  testing::TempDir dir_;
};

double l2_norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v * v;
  return std::sqrt(sum);
}

void expect_same_gradients(const GradientsByName& got, const GradientsByName& want,
                           double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, expected] : want) {
    std::vector<double> apart = got.at(name);
    for (size_t i = 0; i < expected.size(); ++i) apart[i] -= expected[i];
    EXPECT_GT(l2_norm(expected), 0) << name;
    EXPECT_LE(l2_norm(apart), tolerance * l2_norm(expected)) << name;
  }
}

TEST_P(PackedRows, AreTheirSamplesAlone) {
  SmallRun packed = make_run(std::ssize(kRows), kRow, /*packed=*/true);
  feed_packed(packed, [](const RowSample&) { return true; });
  const PackedResult together = run(packed);
  PackedResult sum;
  for (const RowSample& sample : all_samples()) {
    const PackedResult apart = alone(sample);
    sum.loss += apart.loss;
    for (const auto& [name, gradient] : apart.gradients) {
      std::vector<double>& of_all = sum.gradients[name];
      of_all.resize(gradient.size());
      for (size_t i = 0; i < gradient.size(); ++i) of_all[i] += gradient[i];
    }
    // The others are there, but their targets do not count.
    feed_packed(packed, [&](const RowSample& other) {
      return other.row == sample.row && other.begin == sample.begin;
    });
    EXPECT_NEAR(run(packed).loss, apart.loss, 1e-6 * apart.loss)
        << "the sample of " << sample.length << " tokens at " << sample.begin << " of row "
        << sample.row;
  }
  EXPECT_NEAR(together.loss, sum.loss, 1e-6 * sum.loss);
  expect_same_gradients(together.gradients, sum.gradients, 1e-5);
}

// And they would not be without their starts: the test sees what it is there to see.
TEST_P(PackedRows, DifferFromRowsOfOneSample) {
  SmallRun packed = make_run(std::ssize(kRows), kRow, /*packed=*/true);
  feed_packed(packed, [](const RowSample&) { return true; });
  const double apart = run(packed).loss;
  std::ranges::fill(packed.executor().values<int32_t>(packed.executor().shared("starts")), 0);
  EXPECT_GT(std::abs(run(packed).loss - apart), 1e-3 * apart);
}

std::vector<Packed> packed_cases() {
  using enum ops::AttentionKind;
  std::vector<Packed> all;
  for (const auto& [model, config] : kConfigs) {
    for (const ops::AttentionKind kind : {standard, chunked, flash}) all.push_back({model, kind});
    all.push_back({model, flash, "full"});
    all.push_back({model, standard, "attention"});
  }
  return all;
}

std::string packed_name(const ::testing::TestParamInfo<Packed>& p) {
  const char* kinds[] = {"standard", "chunked", "flash"};
  return fmt::format("{}_{}_recompute_{}", p.param.model,
                     kinds[static_cast<int>(p.param.attention)], p.param.recompute);
}

INSTANTIATE_TEST_SUITE_P(Models, PackedRows, ::testing::ValuesIn(packed_cases()), packed_name);

}  // namespace
}  // namespace snug

// Ranks that share every matrix of a model (techniques/tensor/tensor_parallel), as threads of this process: losses,
// gradients and their norm are those of one device, and planned bytes are measured ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/rng.h"
#include "settings/parse.h"
#include "support/rank_run.h"
#include "support/small_run.h"

namespace snug {
namespace {

constexpr int kSteps = 2;

Recipe tensor_ranks(int64_t tp, int64_t dp = 1, int64_t stage = 0) {
  Recipe recipe;
  recipe.optimizer = OptimizerKind::sgd;
  recipe.mesh.tp = tp;
  recipe.sharding = {.ranks = dp, .level = stage, .threshold = 0, .stride = tp};
  return recipe;
}

Recipe without_tensor_ranks(Recipe recipe) {
  recipe.mesh = {};
  recipe.sharding.stride = 1;
  return recipe;
}

// The largest difference, as a part of the largest element.
double worst_of(const std::vector<float>& a, const std::vector<float>& b) {
  double worst = 0, largest = 1e-12;
  for (size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    largest = std::max(largest, std::abs(static_cast<double>(a[i])));
  }
  return worst / largest;
}

// Of no gradients and of no weights: -1.
struct Differences {
  double loss = 0, gradient = -1, norm = 0, weight = -1;
};

std::vector<float> floats_of(const std::vector<std::byte>& bytes) {
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), out.size() * sizeof(float));
  return out;
}

// After all steps.
double worst_weight(const RankResult& one, const RankResult& all) {
  double worst = -1;
  for (const auto& [name, bytes] : one.weights) {
    if (!all.weights.contains(name) || all.weights.at(name).size() != bytes.size()) {
      ADD_FAILURE() << name << " is not there";
      continue;
    }
    worst = std::max(worst, worst_of(floats_of(bytes), floats_of(all.weights.at(name))));
  }
  return worst;
}

double apart(float a, float b) {
  return std::abs(static_cast<double>(a) - static_cast<double>(b)) /
         std::max(1e-12, std::abs(static_cast<double>(a)));
}

// From training without ranks that share matrices; of the first step, for what follows has learned from
// numbers that are not the same bits.
Differences differences(const RankResult& one, const RankResult& all) {
  Differences d{.loss = apart(one.losses.at(0), all.losses.at(0)),
                .norm = apart(one.norms.at(0), all.norms.at(0))};
  EXPECT_EQ(all.gradients.size(), one.gradients.size());
  for (const auto& [name, values] : one.gradients) {
    if (!all.gradients.contains(name) || all.gradients.at(name).size() != values.size()) {
      ADD_FAILURE() << name << " is not there";
      continue;
    }
    const double worst = worst_of(values, all.gradients.at(name));
    EXPECT_LT(worst, 0.2) << name;
    d.gradient = std::max(d.gradient, worst);
  }
  return d;
}

void expect_planned_bytes(const RankResult& all) {
  for (const auto& rank : all.bytes) {
    for (const RankSpaceBytes& bytes : rank) {
      EXPECT_EQ(bytes.planned, bytes.allocated);
      EXPECT_EQ(bytes.written, bytes.measured);
      EXPECT_EQ(bytes.followed, bytes.written);
    }
  }
}

std::string figure(double difference) {
  return difference < 0 ? "   -   " : fmt::format("{:.1e}", difference);
}

struct Tolerance {
  double loss = 1e-5, gradient = 1e-4;
};

Differences expect_same_training(const std::string& model, const BuildOptions& build,
                                 const Recipe& recipe, Tolerance within = {}) {
  const RankResult one = run_ranks(model, build, without_tensor_ranks(recipe), kSteps);
  const RankResult all = run_ranks(model, build, recipe, kSteps);
  Differences d = differences(one, all);
  EXPECT_LT(d.loss, within.loss);
  EXPECT_LT(d.gradient, within.gradient);
  EXPECT_LT(d.norm, within.gradient);
  if (recipe.optimizer == OptimizerKind::sgd && recipe.precision == Dtype::f32) {
    d.weight = worst_weight(one, all);
    EXPECT_LT(d.weight, within.gradient);
  }
  for (size_t i = 1; i < one.losses.size(); ++i)
    EXPECT_LT(apart(one.losses[i], all.losses[i]), 20 * within.loss) << "step " << i;
  EXPECT_LT(apart(one.evaluated, all.evaluated), 20 * within.loss);
  expect_planned_bytes(all);
  return d;
}

std::string small(const std::string& family) { return tests_dir() + "/tensor/" + family + ".json"; }

constexpr const char* kFamilies[] = {"gpt2", "llama", "qwen2", "mistral", "bert"};

BuildOptions small_build() { return {.batch = 2, .seq = 10, .loss_chunk = 7}; }

struct DrawnTensorJob {
  std::string model;
  BuildOptions build;
  Recipe recipe;
  std::string text;
};

DrawnTensorJob draw(int seed) {
  const Key key = random_key(71, static_cast<uint64_t>(seed), hash_name("tensor job"));
  uint64_t draws = 0;
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(philox(key, draws++)[0] % static_cast<uint64_t>(n));
  };
  const char* family = kFamilies[below(5)];
  const int64_t tp = below(3) == 0 ? 4 : 2, dp = below(3) == 0 ? 2 : 1;
  DrawnTensorJob job{
      .model = small(family), .build = {}, .recipe = tensor_ranks(tp, dp), .text = {}};
  Recipe& r = job.recipe;
  r.sharding.level = dp > 1 ? below(4) : 0;
  r.accum = 1 + below(3);
  r.micro_group = below(3) == 0 ? r.accum : 1;
  r.sums_apart = below(2) == 0;
  r.clip = below(2) == 0 ? 0.2 : 1;
  constexpr const char* kPolicies[] = {"none", "full", "attention", "every:2"};
  r.recompute = parse_setting<RecomputePolicy>(kPolicies[below(4)], "recompute");
  r.fused_recompute = below(2) == 0;
  constexpr OptimizerKind kRules[] = {OptimizerKind::sgd, OptimizerKind::adamw,
                                      OptimizerKind::lion};
  const int64_t rule = below(3);
  r.optimizer = kRules[rule];
  BuildOptions& b = job.build;
  b.batch = 1 + below(3);
  b.seq = 4 * (1 + below(8));
  constexpr ops::AttentionKind kKinds[] = {ops::AttentionKind::standard,
                                           ops::AttentionKind::chunked, ops::AttentionKind::flash};
  b.attention = kKinds[below(3)];
  b.attention_chunk = 1 + below(16);
  b.chunked_loss = below(4) > 0;
  b.loss_chunk = 1 + below(40);
  b.residual_in_matmul = below(2) == 0;
  b.packed = family != std::string("bert") && below(3) == 0;
  if (below(3) == 0) b.dropout = 0.1;
  job.text = fmt::format(
      "{} tp {} dp {} zero {}, {} x {} tokens, {} micro-batches by {}, recompute {}, rule {}, "
      "attention {}, loss by {}{}{}{}{}",
      family, tp, dp, r.sharding.level, b.batch, b.seq, r.accum, r.micro_group, text(r.recompute),
      rule, static_cast<int>(b.attention), b.chunked_loss ? b.loss_chunk : 0,
      b.residual_in_matmul ? ", residual in matmul" : "", b.packed ? ", packed" : "",
      b.dropout ? ", dropout" : "", r.sums_apart ? ", sums apart" : "");
  return job;
}

class TensorRanks : public ::testing::Test {
 protected:
  void SetUp() override { omp_set_num_threads(1); }
};

}  // namespace

TEST_F(TensorRanks, FamiliesTrainAsOneDeviceDoes) {
  for (const char* family : kFamilies) {
    for (const int64_t tp : {2, 4}) {
      SCOPED_TRACE(fmt::format("{} over {}", family, tp));
      expect_same_training(small(family), small_build(), tensor_ranks(tp));
    }
  }
}

TEST_F(TensorRanks, GradientsAreSummedOverSamplesAndTensorRanks) {
  for (const int64_t stage : {0, 1, 2, 3}) {
    SCOPED_TRACE(fmt::format("stage {}", stage));
    Recipe recipe = tensor_ranks(2, 2, stage);
    recipe.accum = stage % 2 == 0 ? 2 : 1;
    expect_same_training(small(stage == 3 ? "qwen2" : "bert"), small_build(), recipe);
  }
}

TEST_F(TensorRanks, ClippingCountsEveryGradientOnce) {
  Recipe recipe = tensor_ranks(4);
  recipe.clip = 0.1;
  expect_same_training(small("qwen2"), small_build(), recipe);
}

// Masks are of a token and of a head, wherever they are.
TEST_F(TensorRanks, DropoutDrawsTheSameNumbers) {
  BuildOptions build{.batch = 3, .seq = 12};
  build.dropout = 0.2;
  for (const char* family : {"gpt2", "bert", "llama"}) {
    SCOPED_TRACE(family);
    expect_same_training(small(family), build, tensor_ranks(4));
  }
}

TEST_F(TensorRanks, RecomputeRepeatsCollectives) {
  for (const char* policy : {"full", "attention", "every:2"}) {
    SCOPED_TRACE(policy);
    Recipe recipe = tensor_ranks(2);
    recipe.recompute = parse_setting<RecomputePolicy>(policy, "recompute");
    expect_same_training(small("llama"), small_build(), recipe);
  }
}

TEST_F(TensorRanks, HalvesTrainWithinTheirTolerance) {
  Recipe recipe = tensor_ranks(2);
  recipe.precision = Dtype::bf16;
  expect_same_training(small("llama"), small_build(), recipe, {.loss = 4e-3, .gradient = 0.1});
}

// A share of the cases whose table is in bench/results; SNUG_TENSOR_CASES says how many.
TEST_F(TensorRanks, RandomJobsTrainAsOneDeviceDoes) {
  const char* asked = std::getenv("SNUG_TENSOR_CASES");
  const int cases = asked != nullptr ? std::atoi(asked) : 6;
  for (int seed = 0; seed < cases; ++seed) {
    const DrawnTensorJob job = draw(seed);
    SCOPED_TRACE(job.text);
    const Differences d =
        expect_same_training(job.model, job.build, job.recipe, {.loss = 1e-5, .gradient = 1e-4});
    if (asked != nullptr)
      fmt::print("{:3} loss {:.1e} gradients {} norm {:.1e} weights {}  {}\n", seed, d.loss,
                 figure(d.gradient), d.norm, figure(d.weight), job.text);
  }
}

TEST_F(TensorRanks, IndivisibleSizesAreRefusedWithAdvice) {
  const auto refusal = [&](const char* family, const BuildOptions& build, int64_t tp) {
    try {
      run_ranks(small(family), build, tensor_ranks(tp), 1);
    } catch (const Error& e) {
      return fmt::format("{} ({})", e.what(), e.hint());
    }
    return std::string("none");
  };
  EXPECT_EQ(refusal("llama", {.batch = 3, .seq = 8}, 3),
            "--tp 3: 8 attention heads do not divide over 3 ranks "
            "(--tp 2, 4, 8 would do)");
  EXPECT_EQ(refusal("llama", {.batch = 1, .seq = 7}, 2),
            "--tp 2: 1 x 7 tokens of a micro-batch do not divide over 2 ranks "
            "(--batch 2 would do, or --seq 8)");
}

}  // namespace snug

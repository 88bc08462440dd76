#include "ops/loss/vocabulary_loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "ops/loss/linear_cross_entropy.h"
#include "ops/testing/op_check.h"
#include "ops/testing/run_op.h"

namespace snug::ops {
namespace {

OpDef in_one_chunk(OpDef def, std::vector<Sample> (*samples)()) {
  def.samples = samples;
  return def;
}

template <const OpDef& kDef>
std::vector<Sample> one_chunk() {
  std::vector<Sample> samples = kDef.samples();
  for (Sample& s : samples) s.attrs.set("chunk", 1024);
  return samples;
}

RefTensor draw_of(Shape shape, uint64_t key) {
  RefTensor t{{Dtype::f32, shape}, std::vector<double>(static_cast<size_t>(shape.elements()))};
  for (size_t i = 0; i < t.v.size(); ++i) t.v[i] = normal_pair(key, i)[0];
  return t;
}

}  // namespace

TEST(VocabularyLoss, Checks) {
  check_op(vocabulary_stats_def);
  check_op(vocabulary_loss_def);
}

TEST(VocabularyLoss, ChecksInHalves) {
  check_op_in_halves(in_one_chunk(vocabulary_stats_def, one_chunk<vocabulary_stats_def>));
  check_op_in_halves(in_one_chunk(vocabulary_loss_def, one_chunk<vocabulary_loss_def>));
}

// Three ranks of 8 words each, of which the last has 3: together they have the loss and the gradients of
// one device.
TEST(VocabularyLoss, RanksTogetherAreOneDevice) {
  constexpr int64_t kRows = 9, kC = 6, kWords = 19, kEach = 8, kRanks = 3;
  const RefTensor x = draw_of({kRows, kC}, 1), weight = draw_of({kWords, kC}, 2);
  RefTensor targets{{Dtype::i32, {kRows}}, {}};
  for (int64_t r = 0; r < kRows; ++r)
    targets.v.push_back(r == 4 ? -1 : static_cast<double>(r * 7 % kWords));
  const RefTensor dloss = scalar(Dtype::f32, 0.25);
  const std::vector<RefTensor> one =
      run_op(linear_cross_entropy_grad_def, {x, weight, targets, dloss}, {{"chunk", 4}});

  std::vector<RefTensor> parts;
  RefTensor stats{{Dtype::f32, {kRanks * kRows, 2}}, {}};
  const auto attrs = [&](int64_t rank) {
    return Attrs{{"chunk", 4}, {"first", rank * kEach}, {"words", kWords}, {"ranks", kRanks}};
  };
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    RefTensor part{{Dtype::f32, {kEach, kC}}, std::vector<double>(kEach * kC)};
    const auto first = static_cast<size_t>(rank * kEach * kC);
    for (size_t i = 0; i < part.v.size() && first + i < weight.v.size(); ++i)
      part.v[i] = weight.v[first + i];
    const RefTensor own = run_op(vocabulary_stats_def, {x, part, targets}, attrs(rank))[0];
    stats.v.insert(stats.v.end(), own.v.begin(), own.v.end());
    parts.push_back(std::move(part));
  }
  std::vector<double> dx(x.v.size());
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    const RefTensor& part = parts[static_cast<size_t>(rank)];
    const std::vector<RefTensor> out =
        run_op(vocabulary_loss_grad_def,
               {x, part, targets, dloss, absent(), absent(), absent(), stats}, attrs(rank));
    EXPECT_NEAR(out[0].v[0], one[0].v[0], 1e-5);
    EXPECT_EQ(
        run_op(vocabulary_loss_def, {x, part, targets, absent(), absent(), stats}, attrs(rank))[0]
            .v,
        out[0].v);
    for (size_t i = 0; i < dx.size(); ++i) dx[i] += out[1].v[i];
    for (size_t i = 0; i < out[2].v.size(); ++i) {
      const size_t at = static_cast<size_t>(rank * kEach * kC) + i;
      EXPECT_NEAR(out[2].v[i], at < weight.v.size() ? one[2].v[at] : 0, 1e-6) << rank << " " << i;
    }
  }
  for (size_t i = 0; i < dx.size(); ++i) EXPECT_NEAR(dx[i], one[1].v[i], 1e-6);
}

TEST(VocabularyLoss, TargetBeyondVocabularyIsNan) {
  const RefTensor x = draw_of({1, 4}, 1), part = draw_of({8, 4}, 2);
  const auto stats_of = [&](double target, int64_t first) {
    return run_op(vocabulary_stats_def, {x, part, {{Dtype::i32, {1}}, {target}}},
                  {{"chunk", 4}, {"first", first}, {"words", 13}, {"ranks", 2}})[0]
        .v;
  };
  EXPECT_TRUE(std::isnan(stats_of(13, 0)[1])) << "a row of the last rank's padding";
  EXPECT_EQ(stats_of(13, 8)[1], 0) << "said once";
  EXPECT_EQ(stats_of(12, 0)[1], 0);
  EXPECT_NE(stats_of(12, 8)[1], 0);
}

}  // namespace snug::ops

#include "data/masking.h"

#include <gtest/gtest.h>

#include <vector>

namespace snug {
namespace {

struct Batch {
  explicit Batch(int64_t first_sample, int64_t B = 4, int64_t T = 20)
      : tokens(static_cast<size_t>(B * T)), targets(tokens.size(), 7) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<int32_t>(100 + i % static_cast<size_t>(T));
    }
    before = tokens;
    Masking{.mask = 1, .key = 9}.apply(first_sample, T, tokens, targets);
  }
  std::vector<int32_t> tokens, targets, before;
};

TEST(Masking, MasksFixedNumberPerRowAndTargetsOriginal) {
  const Batch b(0);
  for (size_t row = 0; row < 4; ++row) {
    int64_t masked = 0;
    for (size_t i = row * 20; i < (row + 1) * 20; ++i) {
      const bool hidden = b.tokens[i] == 1;
      EXPECT_EQ(b.targets[i], hidden ? b.before[i] : -1);
      EXPECT_EQ(b.tokens[i], hidden ? 1 : b.before[i]);
      masked += hidden ? 1 : 0;
    }
    EXPECT_EQ(masked, Masking::per_row(20));
  }
  EXPECT_EQ(Masking::per_row(20), 3);
  EXPECT_EQ(Masking::per_row(1), 1);
}

TEST(Masking, DependsOnTheSampleAndNotOnTheBatch) {
  const Batch all(0);
  const Batch later(2, /*B=*/2);
  EXPECT_TRUE(std::equal(later.targets.begin(), later.targets.end(), all.targets.begin() + 40));
  EXPECT_FALSE(std::equal(all.targets.begin(), all.targets.begin() + 20, all.targets.begin() + 20));
}

}  // namespace
}  // namespace snug

#include "data/data.h"

#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "formats/testing.h"

namespace snug {
namespace {

using testing::expect_error;

// 0, 1, 2, ...: a token says where it stood.
class Counting : public TokenStream {
 public:
  explicit Counting(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  std::string text() const override { return "counting"; }
  void copy(int64_t begin, std::span<int32_t> out) const override {
    if (begin < 0 || begin + static_cast<int64_t>(out.size()) > size_)
      throw internal_error("outside");
    std::iota(out.begin(), out.end(), static_cast<int32_t>(begin));
  }

 private:
  int64_t size_;
};

Dataset counting(int64_t size, const WindowOptions& options) {
  return {std::make_shared<Counting>(size), options};
}

// The first tokens of n samples, each checked to be a whole window with its targets.
std::vector<int32_t> starts(const Dataset& data, int64_t first_sample, size_t n) {
  const auto T = static_cast<size_t>(data.T());
  std::vector<int32_t> tokens(n * T), targets(n * T), out;
  data.fill(first_sample, tokens, targets);
  for (size_t i = 0; i < n * T; ++i) {
    EXPECT_EQ(targets[i], tokens[i] + 1);
    if (i % T == 0) out.push_back(tokens[i]);
    EXPECT_EQ(tokens[i], out.back() + static_cast<int32_t>(i % T));
  }
  return out;
}

TEST(Dataset, UnshuffledWindowsAreConsecutive) {
  const Dataset data = counting(13, {.T = 4, .shuffle = false});
  EXPECT_EQ(data.windows(), 3);
  EXPECT_EQ(starts(data, 0, 5), (std::vector<int32_t>{0, 4, 8, 0, 4}));
  EXPECT_EQ(starts(data, 2, 2), (std::vector<int32_t>{8, 0}));
  EXPECT_EQ(data.text(), "counting = 3 windows of 4");
}

TEST(Dataset, CountsTheTargetOfTheLastToken) {
  EXPECT_EQ(counting(12, {.T = 4}).windows(), 2);
  EXPECT_EQ(counting(5, {.T = 4}).windows(), 1);
  expect_error(ExitCode::bad_input, "4 tokens are fewer than the 5", [] { counting(4, {.T = 4}); });
  expect_error(ExitCode::bad_input, "0 tokens are fewer than the 2", [] { counting(0, {.T = 1}); });
  expect_error(ExitCode::usage, "a window of 0 tokens", [] { counting(4, {.T = 0}); });
}

TEST(Dataset, EpochsShuffleDifferently) {
  const Dataset data = counting(101, {.T = 2, .seed = 3});
  const std::vector<int32_t> first = starts(data, 0, 50);
  const std::vector<int32_t> second = starts(data, 50, 50);
  EXPECT_EQ(std::set(first.begin(), first.end()).size(), 50U);
  EXPECT_EQ(std::set(second.begin(), second.end()), std::set(first.begin(), first.end()));
  EXPECT_NE(first, second);
  EXPECT_FALSE(std::is_sorted(first.begin(), first.end()));
  EXPECT_NE(first, starts(counting(101, {.T = 2, .seed = 4}), 0, 50));
}

TEST(Dataset, SampleIsSameInEveryBatch) {
  const Dataset data = counting(1001, {.T = 10, .seed = 3});
  const std::vector<int32_t> many = starts(data, 90, 20);
  for (size_t i = 0; i < many.size(); ++i) {
    EXPECT_EQ(starts(data, 90 + static_cast<int64_t>(i), 1)[0], many[i]);
  }
}

TEST(Dataset, HoldsOutTheLastWindows) {
  const auto [train, held_out] = counting(101, {.T = 10, .seed = 3}).hold_out(0.25);
  EXPECT_EQ(train.windows(), 7);
  EXPECT_EQ(held_out.windows(), 3);
  EXPECT_EQ(starts(held_out, 0, 3), (std::vector<int32_t>{70, 80, 90}));
  const std::vector<int32_t> seen = starts(train, 0, 7);
  EXPECT_EQ(*std::max_element(seen.begin(), seen.end()), 60);
}

TEST(Dataset, RefusesToHoldOutNothingOrAll) {
  const Dataset data = counting(21, {.T = 10});
  for (const double part : {0.0, -1.0, 1.0, 0.6, std::nan("")}) {
    expect_error(ExitCode::usage, "of 2 windows", [&] { data.hold_out(part); });
  }
  EXPECT_EQ(data.hold_out(0.01).held_out.windows(), 1);
}

TEST(Dataset, RefusesRowsOfAnotherLength) {
  const Dataset data = counting(21, {.T = 10});
  std::vector<int32_t> tokens(15), targets(15);
  expect_error(ExitCode::internal, "are not rows of 10", [&] { data.fill(0, tokens, targets); });
}

TEST(SyntheticFeatures, RaisesTheFeatureOfTheClass) {
  const SyntheticFeatures data(64, 5);
  std::vector<float> features(64 * 32), again(64);
  std::vector<int32_t> targets(32), target(1);
  data.fill(100, features, targets);
  EXPECT_GT(std::set(targets.begin(), targets.end()).size(), 8U);
  for (size_t b = 0; b < 32; ++b) {
    EXPECT_GT(features[b * 64 + static_cast<size_t>(targets[b])], 1.2F);
    data.fill(100 + static_cast<int64_t>(b), again, target);
    EXPECT_EQ(target[0], targets[b]);
    EXPECT_TRUE(
        std::equal(again.begin(), again.end(), features.begin() + static_cast<int64_t>(b) * 64));
  }
}

TEST(SyntheticFeatures, AreTheSameForEveryNumberOfThem) {
  std::vector<float> six(6), eight(8);
  std::vector<int32_t> target(1);
  SyntheticFeatures(6, 5).fill(3, six, target);
  const auto raised = static_cast<size_t>(target[0]);
  SyntheticFeatures(8, 5).fill(3, eight, target);
  for (size_t i = 0; i < 6; ++i) {
    if (i == raised || i == static_cast<size_t>(target[0])) continue;
    EXPECT_EQ(six[i], eight[i]) << i;
  }
}

}  // namespace
}  // namespace snug

#include "generate/token_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <vector>

#include "base/error.h"

namespace snug {
namespace {

constexpr std::array kLogits{0.0F, 2.0F, 1.0F, 2.0F, -1.0F};

// How often each token is drawn, as a part of all draws.
std::map<int32_t, double> shares(const TokenChoice& choice, int64_t draws = 20000) {
  std::map<int32_t, double> found;
  for (int64_t i = 0; i < draws; ++i)
    found[choose_token(kLogits, choice, i)] += 1.0 / static_cast<double>(draws);
  return found;
}

double probability(size_t token, double temperature) {
  double sum = 0;
  for (const float x : kLogits) sum += std::exp(x / temperature);
  return std::exp(kLogits[token] / temperature) / sum;
}

TEST(TokenChoice, ZeroTemperaturePicksFirstMostProbable) {
  for (int64_t place = 0; place < 5; ++place)
    EXPECT_EQ(choose_token(kLogits, {.temperature = 0, .seed = 9}, place), 1);
}

TEST(TokenChoice, DrawsByProbability) {
  for (const double temperature : {1.0, 0.5}) {
    auto found = shares({.temperature = temperature, .seed = 3});
    for (size_t token = 0; token < kLogits.size(); ++token)
      EXPECT_NEAR(found[static_cast<int32_t>(token)], probability(token, temperature), 0.012)
          << token << " at " << temperature;
  }
}

TEST(TokenChoice, SameSeedAndPositionDrawSameToken) {
  const auto drawn = [](uint64_t seed) {
    std::vector<int32_t> tokens;
    for (int64_t place = 0; place < 40; ++place)
      tokens.push_back(choose_token(kLogits, {.seed = seed}, place));
    return tokens;
  };
  EXPECT_EQ(drawn(1), drawn(1));
  EXPECT_NE(drawn(1), drawn(2));
}

TEST(TokenChoice, TopKLeavesSoMany) {
  using ::testing::Key;
  using ::testing::UnorderedElementsAre;
  EXPECT_THAT(shares({.top_k = 1}), UnorderedElementsAre(Key(1)));
  EXPECT_THAT(shares({.top_k = 2}), UnorderedElementsAre(Key(1), Key(3)));
  auto three = shares({.top_k = 3});
  EXPECT_THAT(three, UnorderedElementsAre(Key(1), Key(2), Key(3)));
  EXPECT_NEAR(three[2], 1 / (1 + 2 * std::exp(1)), 0.012);
  EXPECT_EQ(shares({.top_k = 100}).size(), kLogits.size());
}

// Tokens 1 and 3 have 0.39 each, token 2 has 0.14.
TEST(TokenChoice, TopPLeavesAsManyAsReachIt) {
  using ::testing::Key;
  using ::testing::UnorderedElementsAre;
  EXPECT_THAT(shares({.top_p = 0.01}), UnorderedElementsAre(Key(1)));
  EXPECT_THAT(shares({.top_p = 0.5}), UnorderedElementsAre(Key(1), Key(3)));
  EXPECT_THAT(shares({.top_p = 0.85}), UnorderedElementsAre(Key(1), Key(2), Key(3)));
  EXPECT_THAT(shares({.top_p = 0.9, .top_k = 2}), UnorderedElementsAre(Key(1), Key(3)));
}

TEST(TokenChoice, RefusesInvalidLogits) {
  const std::array nan{0.0F, std::nanf("")};
  EXPECT_THROW(choose_token(nan, {}, 0), Error);
  const std::array infinite{0.0F, INFINITY};
  EXPECT_THROW(choose_token(infinite, {.temperature = 0}, 0), Error);
}

TEST(TokenChoice, RefusesInvalidNumbers) {
  EXPECT_NO_THROW(check(TokenChoice{}));
  EXPECT_THROW(check(TokenChoice{.temperature = -1}), Error);
  EXPECT_THROW(check(TokenChoice{.top_p = 0}), Error);
  EXPECT_THROW(check(TokenChoice{.top_p = 1.5}), Error);
  EXPECT_THROW(check(TokenChoice{.top_k = -1}), Error);
}

}  // namespace
}  // namespace snug

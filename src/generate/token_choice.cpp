#include "generate/token_choice.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "settings/option_checks.h"

namespace snug {
namespace {

// In [0, 1), of 53 bits.
double draw(uint64_t seed, int64_t place) {
  const Key key = random_key(seed, 0, hash_name("sampled tokens"));
  const auto words = philox(key, static_cast<uint64_t>(place));
  const uint64_t bits = (uint64_t{words[0]} << 32 | words[1]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

// The tokens that may be drawn: the most probable first where only some may.
std::vector<int32_t> candidates(std::span<const float> logits, const TokenChoice& choice) {
  std::vector<int32_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  const bool all = choice.top_k == 0 && choice.top_p >= 1;
  if (all) return tokens;
  const auto more_probable = [&](int32_t a, int32_t b) {
    const float la = logits[static_cast<size_t>(a)], lb = logits[static_cast<size_t>(b)];
    return la != lb ? la > lb : a < b;
  };
  const auto count = static_cast<int64_t>(tokens.size());
  const auto end = tokens.begin() + (choice.top_k > 0 ? std::min(choice.top_k, count) : count);
  std::partial_sort(tokens.begin(), end, tokens.end(), more_probable);
  tokens.erase(end, tokens.end());
  return tokens;
}

}  // namespace

void check(const TokenChoice& choice) {
  require_between(0, 100, choice.temperature, "temperature");
  require_at_least(0, choice.top_k, "top-k");
  if (!(choice.top_p > 0 && choice.top_p <= 1))
    throw usage_error("--top-p is {}; it must be above 0 and at most 1", choice.top_p);
}

int32_t choose_token(std::span<const float> logits, const TokenChoice& choice, int64_t place) {
  if (std::ranges::any_of(logits, [](float x) { return std::isnan(x); }))
    throw device_error("the model's logits are not numbers after {} tokens", place)
        .hint("try --precision fp32; `snug eval` says whether its loss is finite");
  const auto top = std::ranges::max_element(logits);  // of equal ones the first
  if (!std::isfinite(*top))
    throw device_error("the model's largest logit is {} after {} tokens", *top, place);
  if (choice.temperature == 0) return static_cast<int32_t>(top - logits.begin());
  const std::vector<int32_t> tokens = candidates(logits, choice);
  std::vector<double> weights;
  weights.reserve(tokens.size());
  for (const int32_t token : tokens) {
    const double below = double{logits[static_cast<size_t>(token)]} - *top;
    weights.push_back(std::exp(below / choice.temperature));
  }
  double sum = std::reduce(weights.begin(), weights.end());
  size_t count = weights.size();
  if (choice.top_p < 1) {
    const double wanted = choice.top_p * sum;
    sum = 0;
    for (count = 0; count < weights.size() && sum < wanted; ++count) sum += weights[count];
  }
  double left = draw(choice.seed, place) * sum;
  for (size_t i = 0; i + 1 < count; ++i) {
    left -= weights[i];
    if (left < 0) return tokens[i];
  }
  return tokens[count - 1];
}

}  // namespace snug

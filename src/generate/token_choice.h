// Chooses the next token by the model's logits. A pure function: the same seed and place in the
// sequence draw the same token.
//
//   const TokenChoice choice{.temperature = 0.8, .top_p = 0.95, .seed = 7};
//   int32_t token = choose_token(logits, choice, /*place=*/12);
#pragma once

#include <cstdint>
#include <span>

namespace snug {

struct TokenChoice {
  double temperature = 1;  // logits are divided by it; 0: the most probable token, always
  double top_p = 1;        // of the most probable tokens, as many as reach this probability
  int64_t top_k = 0;       // of them at most so many; 0: all
  uint64_t seed = 1;
};

// Throws a usage error for numbers that make no sense.
void check(const TokenChoice& choice);

// Of equal logits the smaller token goes first. Throws a device error where a logit is NaN, or none
// is finite.
int32_t choose_token(std::span<const float> logits, const TokenChoice& choice, int64_t place);

}  // namespace snug

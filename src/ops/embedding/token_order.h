// Tokens in ascending order, equal ones in their original order: a stable radix sort on
// CUDA, so that sums over the places of a token have one order.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace snug::ops {

// A token and its place. Their order is that of the tokens.
struct alignas(8) TokenPlace {
  int32_t row;
  int32_t token;
};

constexpr int64_t kTokenTile = 1024;    // tokens that one block of threads sorts
constexpr int64_t kTokenDigitBits = 9;  // sorted by at a time
constexpr int64_t kTokenDigits = int64_t{1} << kTokenDigitBits;

constexpr int64_t kTokenPasses = 4;  // over 31 bits, at most

// Scratch bytes: the places twice, and how often each digit occurs in each tile, pass by pass.
inline int64_t token_order_scratch(int64_t tokens) {
  const char* what = "the sorted tokens";
  const int64_t padded = round_up(tokens, kTokenTile);
  const int64_t per_tile =
      checked_mul(padded / kTokenTile, kTokenDigits * int64_t{4} * kTokenPasses, what);
  return checked_add(checked_mul(2 * int64_t{sizeof(TokenPlace)}, padded, what), per_tile, what);
}

// The places of n >= 1 tokens, all below `rows`; they are in `scratch`. Enqueues only; `stream` is
// a cudaStream_t.
const TokenPlace* order_tokens(const int32_t* tokens, int64_t n, int64_t rows, void* scratch,
                               void* stream);

}  // namespace snug::ops

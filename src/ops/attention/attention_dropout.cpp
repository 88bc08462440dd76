#include "ops/attention/attention_dropout.h"

#include <algorithm>

namespace snug::ops {

namespace {

constexpr uint64_t kDraws = 16;

// Random bits of elements [4 * draw, 4 * (draw + kDraws)): the draws side by side, so that the loop
// vectorises.
void draw_bits(Key key, uint64_t draw, uint64_t stream, uint32_t* bits) {
  uint32_t lanes[4][kDraws];
#pragma omp simd
  for (uint64_t i = 0; i < kDraws; ++i) {
    const auto four = philox(key, draw + i, stream);
    lanes[0][i] = four[0];
    lanes[1][i] = four[1];
    lanes[2][i] = four[2];
    lanes[3][i] = four[3];
  }
  for (uint64_t i = 0; i < 4 * kDraws; ++i) bits[i] = lanes[i % 4][i / 4];
}

}  // namespace

void AttentionDropout::factors(int64_t b, int64_t first, int64_t n, float* factors) const {
  const auto stream = static_cast<uint64_t>(sample + b);
  const auto begin = static_cast<uint64_t>(first);
  const uint64_t end = begin + static_cast<uint64_t>(n);
  for (uint64_t at = begin / 4 * 4; at < end; at += 4 * kDraws) {
    uint32_t bits[4 * kDraws];
    draw_bits(key, at / 4, stream, bits);
    for (uint64_t e = std::max(begin, at); e < std::min(end, at + 4 * kDraws); ++e) {
      factors[e - begin] = bits[e - at] >= threshold ? scale : 0;
    }
  }
}

AttentionDropout attention_dropout(const KernelArgs& a, size_t port) {
  if (!a.attrs.has("p")) return {};
  const double p = a.attrs.f("p");
  return {.key = op_key(*a.in<int64_t>(port), *a.in<int64_t>(port + 1), a.attrs),
          .sample = *a.in<int64_t>(port + 2),
          .threshold = drop_threshold(p),
          .scale = static_cast<float>(1 / (1 - p))};
}

}  // namespace snug::ops

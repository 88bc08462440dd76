#include "ops/attention/attention_dropout.h"

#include <algorithm>

namespace snug::ops {

void AttentionDropout::factors(int64_t b, int64_t first, int64_t n, float* factors) const {
  const auto stream = static_cast<uint64_t>(sample + b);
  const auto begin = static_cast<uint64_t>(first);
  const uint64_t end = begin + static_cast<uint64_t>(n);
  for (uint64_t four = begin / 4; four * 4 < end; ++four) {
    const auto bits = philox(key, four, stream);
    for (uint64_t e = std::max(begin, four * 4); e < std::min(end, four * 4 + 4); ++e) {
      factors[e - begin] = bits[e % 4] >= threshold ? scale : 0;
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

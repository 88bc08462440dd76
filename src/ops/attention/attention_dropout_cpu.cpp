#include "ops/attention/attention_dropout_cpu.h"

#include <algorithm>

#include "kernels/cpu/mask_bits.h"
#include "ops/attention/packed_heads.h"

namespace snug::ops {

void AttentionDropout::factors(int64_t b, int64_t first, int64_t n, float* factors) const {
  const auto stream = static_cast<uint64_t>(sample + b);
  const auto begin = static_cast<uint64_t>(first_drawn + first);
  const uint64_t end = begin + static_cast<uint64_t>(n);
  const float values[] = {0, scale};  // looked up, not branched on: random bits defeat prediction
  for (uint64_t at = begin / 8 * 8; at < end; at += kMaskBits) {
    uint16_t bits[kMaskBits];
    mask_bits(key, at / 8, stream, bits);
    for (uint64_t e = std::max(begin, at); e < std::min(end, at + kMaskBits); ++e) {
      factors[e - begin] = values[bits[e - at] >= threshold];
    }
  }
}

AttentionDropout attention_dropout(const KernelArgs& a, size_t port) {
  if (!a.attrs.has("p")) return {};
  const double p = a.attrs.f("p");
  return {.key = op_key(*a.in<int64_t>(port), *a.in<int64_t>(port + 1), a.attrs),
          .sample = *a.in<int64_t>(port + 2),
          .first_drawn = first_dropped(a),
          .threshold = drop_threshold(p),
          .scale = static_cast<float>(drop_scale(p))};
}

}  // namespace snug::ops

#include "data/masking.h"

namespace snug {

void Masking::apply(int64_t first_sample, int64_t T, std::span<int32_t> tokens,
                    std::span<int32_t> targets) const {
  std::ranges::fill(targets, -1);
  const auto rows = static_cast<int64_t>(tokens.size()) / T;
  for (int64_t row = 0; row < rows; ++row) {
    const Key order = random_key(key, static_cast<uint64_t>(first_sample + row), 0);
    for (int64_t i = 0; i < per_row(T); ++i) {
      const auto chosen = permute(order, static_cast<uint64_t>(i), static_cast<uint64_t>(T));
      const size_t at = static_cast<size_t>(row * T) + chosen;
      targets[at] = tokens[at];
      tokens[at] = mask;
    }
  }
}

}  // namespace snug
